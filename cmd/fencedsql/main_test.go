package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// asEnv makes the test binary the command, which starts itself again for the workers.
const asEnv = "FENCEDSQL_TEST_AS"

const (
	// asEscape: a write of worker A reaches the row by another way than fencedsql.
	asEscape = "escape"
	// asHang: the workers do nothing; asHangB: B does nothing.
	asHang  = "hang"
	asHangB = "hang B"
	// asNoise: the workers write what is no report.
	asNoise = "noise"
)

func TestMain(m *testing.M) {
	as := os.Getenv(asEnv)
	if as == "" {
		os.Exit(m.Run())
	}
	args := os.Args[1:]
	if len(args) == 3 && args[0] == workerCommandName {
		switch {
		case as == asHang, as == asHangB && args[1] == "B":
			time.Sleep(time.Hour)
		case as == asNoise:
			fmt.Println("noise")
		case as == asEscape && args[1] == "A":
			code := run(args, streams{os.Stdin, os.Stdout, os.Stderr})
			if err := escape(args[2]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = exitFailed
			}
			os.Exit(code)
		}
	}
	main()
}

func escape(path string) error {
	db, err := sql.Open("sqlite3", dataSource(path))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(context.Background(), writeSQL, summaryA, chatID)
	return err
}

func TestUsage(t *testing.T) {
	const general, demo = "Usage: fencedsql <command>", "Usage: fencedsql demo [-keep]"
	for _, tt := range []struct {
		args     string
		code     int
		out, err string // how each begins; "" is nothing at all
	}{
		{"", 2, "", general},
		{"-h", 0, general, ""},
		{"--help", 0, general, ""},
		{"-x", 2, "", "fencedsql: flag provided but not defined: -x\n\n" + general},
		{"leases", 2, "", "fencedsql: there is no command \"leases\"\n\n" + general},
		{"demo -h", 0, demo, ""},
		{"demo -x", 2, "", "fencedsql demo: flag provided but not defined: -x\n\n" + demo},
		{"demo -keep=x", 2, "", "fencedsql demo: invalid boolean value"},
		{"demo x", 2, "", "fencedsql demo: it takes no arguments, got \"x\"\n\n" + demo},
		{"demo-worker", 2, "", "fencedsql demo-worker: the demo starts it"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out, err bytes.Buffer
			code := run(strings.Fields(tt.args), streams{strings.NewReader(""), &out, &err})
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, o := range []struct{ got, want string }{{out.String(), tt.out}, {err.String(), tt.err}} {
				if !strings.HasPrefix(o.got, o.want) || o.want == "" && o.got != "" {
					t.Errorf("got %q, want %q", o.got, o.want)
				}
				if strings.Contains(o.got, workerCommandName) && !strings.HasPrefix(tt.args, workerCommandName) {
					t.Error("the usage shows the workers' command")
				}
			}
		})
	}
}
