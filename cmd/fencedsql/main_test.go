package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// asEnv makes the test binary the command, which starts itself again for the workers.
const asEnv = "FENCEDSQL_TEST_AS"

const (
	// asCommand: the test binary is the command and nothing else.
	asCommand = "command"
	// asEscape: a write of worker A reaches the row by another way than fencedsql.
	asEscape = "escape"
	// asTwoStores: worker B asks another lease store than A.
	asTwoStores = "two stores"
	// asHang: the workers do nothing.
	asHang = "hang"
	// asNoise: the workers write what is no report.
	asNoise = "noise"
)

func TestMain(m *testing.M) {
	as := os.Getenv(asEnv)
	if as == "" {
		os.Exit(m.Run())
	}
	if len(os.Args) == 2 && os.Args[1] == workerCommandName {
		os.Exit(workerAs(as))
	}
	main()
}

// workerAs is a worker process of a demo that goes wrong.
func workerAs(as string) int {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	var j job
	if err != nil || json.Unmarshal(line, &j) != nil {
		fmt.Fprintf(os.Stderr, "no job: %s\n", line)
		return exitFailed
	}
	switch {
	case as == asHang:
		time.Sleep(time.Hour)
	case as == asNoise:
		fmt.Println("noise")
		return exitOK
	case as == asTwoStores && j.Worker == "B":
		j.Prefix = "other_"
	}
	code := run(os.Args[1:], streams{io.MultiReader(strings.NewReader(j.line()+"\n"), in), os.Stdout, os.Stderr})
	if as == asEscape && j.Worker == "A" {
		if err := escape(j); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFailed
		}
	}
	return code
}

func escape(j job) error {
	engine, err := engineNamed(j.Engine)
	if err != nil {
		return err
	}
	db, err := engine.open(context.Background(), j.Data)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(context.Background(), j.writeText(), summaryA, chatID)
	return err
}

// call runs the command in this process.
func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, streams{strings.NewReader(""), &out, &err})
	return code, out.String(), err.String()
}

func TestUsage(t *testing.T) {
	t.Setenv(dsnEnv, "")
	t.Setenv(dataDSNEnv, "")
	const (
		general = "Usage: fencedsql <command>"
		demo    = "Usage: fencedsql demo [-engine"
		leases  = "Usage: fencedsql leases <command>"
		ddl     = "Usage: fencedsql leases ddl -engine"
		list    = "Usage: fencedsql leases list -engine"
		raise   = "Usage: fencedsql leases raise-above -engine"
	)
	for _, tt := range []struct {
		args     string
		code     int
		out, err string // how each begins; "" is nothing at all
		usage    string // what stands on stderr below the mistake
	}{
		{args: "", code: 2, err: general},
		{args: "-h", out: general},
		{args: "--help", out: general},
		{args: "help", out: general},
		{args: "help help", out: general},
		{args: "-x", code: 2, err: "fencedsql: flag provided but not defined: -x\n\n", usage: general},
		{args: "lease", code: 2, err: "fencedsql: there is no command \"lease\"\n\n", usage: general},
		{args: "help lease", code: 2, err: "fencedsql: there is no command \"lease\"\n\n", usage: general},

		{args: "demo -h", out: demo},
		{args: "help demo", out: demo},
		{args: "demo -x", code: 2, err: "fencedsql demo: flag provided but not defined: -x\n\n", usage: demo},
		{args: "demo -keep=x", code: 2, err: "fencedsql demo: invalid boolean value", usage: demo},
		{args: "demo x", code: 2, err: "fencedsql demo: it takes no arguments, got \"x\"\n\n", usage: demo},
		{args: "demo -engine oracle", code: 2, err: "fencedsql demo: there is no engine \"oracle\": it is one of sqlite, postgres, mysql\n\n", usage: demo},
		{args: "demo -dsn secret.db", code: 2, err: "fencedsql demo: with SQLite it takes no -dsn: ", usage: demo},
		{args: "demo -engine sqlite --dsn secret.db", code: 2, err: "fencedsql demo: with SQLite it takes no -dsn: ", usage: demo},
		{args: "demo -engine postgres", code: 2, err: "fencedsql demo: -dsn is missing, or FENCEDSQL_DSN in the environment: the database to play in, postgres://", usage: demo},
		{args: "demo --engine mysql", code: 2, err: "fencedsql demo: -dsn is missing, or FENCEDSQL_DSN in the environment: the database to play in, user:", usage: demo},
		{args: "demo-worker", code: 2, err: "fencedsql demo-worker: the demo starts it"},

		{args: "leases", code: 2, err: leases},
		{args: "leases -h", out: leases},
		{args: "help leases", out: leases},
		{args: "leases help", out: leases},
		{args: "leases x", code: 2, err: "fencedsql leases: there is no command \"x\"\n\n", usage: leases},
		{args: "leases ddl -h", out: ddl},
		{args: "help leases ddl", out: ddl},
		{args: "leases ddl", code: 2, err: "fencedsql leases ddl: -engine is missing: it is one of sqlite, postgres, mysql\n\n", usage: ddl},
		{args: "leases ddl -engine sqlite -prefix a-b", code: 2, err: "fencedsql leases ddl: sqlstore: prefix \"a-b\"", usage: ddl},
		{args: "leases ddl -engine sqlite -schema a-b", code: 2, err: "fencedsql leases ddl: sqlstore: schema \"a-b\"", usage: ddl},
		{args: "leases ddl -engine sqlite -dsn secret.db", code: 2, err: "fencedsql leases ddl: flag provided but not defined: -dsn", usage: ddl},
		{args: "leases list -h", out: list},
		{args: "leases help list", out: list},
		{args: "leases list -engine sqlite", code: 2, err: "fencedsql leases list: -dsn is missing, or FENCEDSQL_DSN in the environment: app.db", usage: list},
		{args: "leases list -dsn secret.db", code: 2, err: "fencedsql leases list: -engine is missing", usage: list},
		{args: "leases list -engine sqlite -dsn secret.db x", code: 2, err: "fencedsql leases list: it takes no arguments", usage: list},
		{args: "leases raise-above -h", out: raise},
		{args: "leases raise-above -engine sqlite -dsn secret.db", code: 2, err: "fencedsql leases raise-above: it takes either -fence or -from-tables\n\n", usage: raise},
		{args: "leases raise-above -engine sqlite -dsn secret.db -fence 1 -from-tables a.b", code: 2, err: "fencedsql leases raise-above: it takes either", usage: raise},
		{args: "leases raise-above -engine sqlite -dsn secret.db -fence 2 -fence 1", code: 2, err: "fencedsql leases raise-above: invalid value \"1\" for flag -fence: it is there twice", usage: raise},
		{args: "leases raise-above -engine sqlite -fence 1", code: 2, err: "fencedsql leases raise-above: -dsn is missing", usage: raise},
		{args: "leases raise-above -engine sqlite -dsn secret.db -fence 0x1", code: 2, err: "fencedsql leases raise-above: lease: fence \"0x1\" is not", usage: raise},
		{args: "leases raise-above -engine sqlite -dsn secret.db -fence 1 -data-dsn secret.db", code: 2, err: "fencedsql leases raise-above: -data-engine and -data-dsn go with", usage: raise},
		{args: "leases raise-above -engine sqlite -dsn secret.db -from-tables a", code: 2, err: "fencedsql leases raise-above: \"a\" names no table and column", usage: raise},
		{args: "leases raise-above -engine sqlite -dsn secret.db -from-tables a.b -data-engine x", code: 2, err: "fencedsql leases raise-above: -data-engine: there is no engine \"x\"", usage: raise},
		{args: "leases raise-above -engine sqlite -dsn secret.db -from-tables a.b -data-engine mysql", code: 2, err: "fencedsql leases raise-above: -data-dsn is missing, or FENCEDSQL_DATA_DSN in", usage: raise},
	} {
		t.Run(tt.args, func(t *testing.T) {
			code, out, err := call(strings.Fields(tt.args)...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, o := range []struct{ got, want string }{{out, tt.out}, {err, tt.err}} {
				if !strings.HasPrefix(o.got, o.want) || o.want == "" && o.got != "" {
					t.Errorf("got %q, want %q", o.got, o.want)
				}
				if strings.Contains(o.got, workerCommandName) && !strings.HasPrefix(tt.args, workerCommandName) {
					t.Error("the usage shows the workers' command")
				}
				if strings.Contains(o.got, "secret") {
					t.Error("the output shows the DSN")
				}
				for line := range strings.Lines(o.got) {
					if len([]rune(line)) > 100 && line != strings.SplitAfter(err, "\n")[0] {
						t.Errorf("a long line: %s", line)
					}
				}
			}
			if !strings.Contains(err, "\n\n"+tt.usage) && tt.usage != "" {
				t.Errorf("no usage below the mistake: %q", err)
			}
		})
	}
}

// TestUnreachable: an error says what is wrong, and shows nothing of the DSN. Port 1 is nobody's.
func TestUnreachable(t *testing.T) {
	t.Setenv(dataDSNEnv, "")
	const postgres, mysql = "postgres://joe:s3cret@127.0.0.1:1/shop?sslmode=disable&connect_timeout=5", "joe:s3cret@tcp(127.0.0.1:1)/shop"
	for _, tt := range []struct{ engine, dsn, want string }{
		{"postgres", postgres, "the postgres database at the DSN cannot be reached: connection refused"},
		{"postgres", strings.ReplaceAll(postgres, "disable", "prefer"), "the postgres database at the DSN cannot be reached: connection refused"},
		{"mysql", mysql, "the mysql database at the DSN cannot be reached: connection refused"},
		{"postgres", "postgres://joe:s3cret@127.0.0.1:x/shop", "the DSN is none for github.com/jackc/pgx: it cannot be read: want postgres://user:password@host:port/database"},
		{"postgres", "s3cret", "the DSN is none for github.com/jackc/pgx: it cannot be read: want postgres://user:password@host:port/database"},
		{"mysql", "joe:s3cret@tcp(127.0.0.1:1)shop", "the DSN is none for github.com/go-sql-driver/mysql: it cannot be read: want user:password@tcp(host:port)/database"},
	} {
		for _, args := range []string{"demo", "leases list", "leases raise-above -fence 1", "leases raise-above -from-tables a.b"} {
			t.Run(tt.engine+" "+args, func(t *testing.T) {
				if !canPause && args == "demo" {
					return // TestDemoCannot
				}
				t.Setenv(dsnEnv, tt.dsn)
				code, out, err := call(append(strings.Fields(args), "-engine", tt.engine)...)
				if code != exitFailed || out != "" || !strings.Contains(err, tt.want) {
					t.Errorf("exit code %d, stdout %q, stderr %q", code, out, err)
				}
				for _, part := range []string{"joe", "s3cret", "shop"} {
					if strings.Contains(err, part) {
						t.Errorf("%q is in the error: %s", part, err)
					}
				}
			})
		}
	}
}

func TestBare(t *testing.T) {
	refused, joined := errors.New("refused"), errors.New("on the second address")
	for want, err := range map[string]error{
		"refused":               fmt.Errorf("connecting to host: %w", &net.OpError{Op: "dial", Net: "tcp", Err: refused}),
		"no such host":          fmt.Errorf("connecting: %w", &net.OpError{Err: &net.DNSError{Err: "no such host", Name: "host", UnwrapErr: refused}}),
		"on the second address": fmt.Errorf("connecting to host: %w", errors.Join(refused, fmt.Errorf("host: %w", joined))),
	} {
		if got := bare(err).Error(); got != want {
			t.Errorf("bare(%v) = %s, want %s", err, got, want)
		}
	}
}

func TestFileOf(t *testing.T) {
	for dsn, want := range map[string]string{
		"kv.db":                             "kv.db",
		"/a b/kv.db?_busy_timeout=1":        "/a b/kv.db",
		"a%41.db":                           "a%41.db",
		"file:kv.db?mode=ro":                "kv.db",
		"file:/a%20b/kv.db":                 "/a b/kv.db",
		"file:///a/kv%3F.db?x=1#y":          "/a/kv?.db",
		"file://localhost/kv.db":            "/kv.db",
		"file:kv.db#x":                      "kv.db",
		dataSource("/a b?c%41&d#e/kv", "x"): "/a b?c%41&d#e/kv",
	} {
		if got := fileOf(dsn); got != want {
			t.Errorf("fileOf(%q) = %q, want %q", dsn, got, want)
		}
	}
}
