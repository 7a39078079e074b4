//go:build cgo

package main

import (
	"cmp"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
)

// bareFile opens a SQLite file with the bare driver.
func bareFile(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", dataSource(path, "_busy_timeout=5000"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func apply(t *testing.T, db *sql.DB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%v\nin %s", err, text)
		}
	}
}

func one[T any](t *testing.T, db *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRow(query, args...).Scan(&v); err != nil {
		t.Fatalf("%v\nin %s", err, query)
	}
	return v
}

func openStore(t *testing.T, path string, opts ...sqlstore.Option) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), bareFile(t, path), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// must runs the command and returns its output.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, err := call(args...)
	if code != exitOK || err != "" {
		t.Fatalf("%q: exit code %d, stderr %q", args, code, err)
	}
	return out
}

// refused runs a command that is to fail, and returns what it says.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	code, out, err := call(args...)
	if code != exitFailed || out != "" {
		t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, out, err)
	}
	return err
}

// TestDDL: the output is a script that makes a store, twice if need be.
func TestDDL(t *testing.T) {
	for _, names := range [][]string{nil, {"-prefix", "my_"}, {"--schema=main", "-prefix", "x"}} {
		path := filepath.Join(t.TempDir(), "kv.db")
		script := must(t, append([]string{"leases", "ddl", "-engine", "sqlite"}, names...)...)
		if !strings.HasSuffix(script, ";\n") {
			t.Errorf("the script ends with %q", script[len(script)-10:])
		}
		apply(t, bareFile(t, path), script, script)
		var opts []sqlstore.Option
		switch len(names) {
		case 2:
			opts = append(opts, sqlstore.WithPrefix("my_"))
		case 3:
			opts = append(opts, sqlstore.WithPrefix("x"), sqlstore.WithSchema("main"))
		}
		s := openStore(t, path, append(opts, sqlstore.WithoutMigrate())...)
		if _, err := s.Locks("f", time.Minute).TryAcquire(t.Context(), "k"); err != nil {
			t.Errorf("%q: %v", names, err)
		}
	}
	for _, engine := range []string{"postgres", "mysql"} { // run in integration/command
		script := must(t, "leases", "ddl", "-engine", engine, "-prefix", "my_", "-schema", "other")
		if n := strings.Count(script, "other"); n < 2 || strings.Count(script, "my_leases") == 0 {
			t.Errorf("%s: the schema's name is there %d times:\n%s", engine, n, script)
		}
	}
}

func TestList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv ?.db")
	dsn := dataSource(path, "")
	s := openStore(t, path, sqlstore.WithOwner("host \x1b[31m/1"))
	list := []string{"leases", "list", "-engine", "sqlite", "-dsn", dsn}
	if out := must(t, list...); out != "no lease is held\n" {
		t.Errorf("an empty store: %q", out)
	}

	held, err := s.Locks("summaries", time.Minute).TryAcquire(t.Context(), "chat\n42")
	if err != nil {
		t.Fatal(err)
	}
	slot, err := s.Semaphore("mails", 3, time.Minute).TryAcquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db := bareFile(t, path)
	const contents = "SELECT group_concat(quote(family) || quote(name) || slot || quote(token) || epoch || counter || began || ends) FROM fencedsql_leases"
	before := one[string](t, db, contents)
	for range 2 {
		out := must(t, list...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		const stamp = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S+`
		for i, want := range []string{
			`NAME +KEY +FENCE +OWNER +SINCE +UNTIL`,
			`"mails" +semaphore, slot [1-3] +none +"host \\x1b\[31m/1" +` + stamp + ` +` + stamp,
			`"summaries" +"chat\\n42" +` + held.Fence().String() + ` +"host \\x1b\[31m/1" +` + stamp + ` +` + stamp,
		} {
			if len(lines) != 3 || !regexp.MustCompile("^"+want+"$").MatchString(lines[i]) {
				t.Fatalf("line %d is not %s:\n%s", i, want, out)
			}
		}
	}
	if after := one[string](t, db, contents); after != before {
		t.Errorf("the leases were %s\nand are %s", before, after)
	}
	for _, h := range []*sqlstore.Held{held, slot} {
		if err := h.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
	}
	if out := must(t, list...); out != "no lease is held\n" {
		t.Errorf("after the release: %q", out)
	}

	// The DSN may come from the environment; a flag is stronger.
	t.Setenv(dsnEnv, dsn)
	must(t, "leases", "list", "-engine", "sqlite")
	t.Setenv(dsnEnv, path+"/none")
	refused(t, "leases", "list", "-engine", "sqlite")
	must(t, list...)
}

// TestNoStore: no command but ddl's makes one, neither a file nor a table.
func TestNoStore(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"leases", "list"}, {"leases", "raise-above", "-fence", "7"}, {"leases", "raise-above", "-from-tables", "chats.fence"},
	} {
		args = append(args, "-engine", "sqlite", "-dsn")
		for _, dsn := range []string{filepath.Join(dir, "s3cret.db"), dataSource(filepath.Join(dir, "s3cret.db"), "_busy_timeout=5000")} {
			err := refused(t, append(args, dsn)...)
			if !strings.Contains(err, "the sqlite database at the DSN cannot be reached: no such file or directory") || strings.Contains(err, "s3cret") {
				t.Errorf("stderr %q", err)
			}
		}
	}
	if left := entries(t, dir); len(left) != 0 {
		t.Errorf("made: %v", left)
	}

	path := filepath.Join(dir, "kv.db")
	openStore(t, path)
	db := bareFile(t, path)
	const tables = "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema ORDER BY name)"
	before := one[string](t, db, tables)
	for _, args := range [][]string{{"leases", "list"}, {"leases", "raise-above", "-fence", "7"}} {
		err := refused(t, append(args, "-engine", "sqlite", "-dsn", path, "-prefix", "other_")...)
		if !strings.Contains(err, "other_epoch") || !strings.Contains(err, "-prefix") {
			t.Errorf("stderr %q", err)
		}
	}
	if after := one[string](t, db, tables); after != before {
		t.Errorf("there were the tables %s, and now %s", before, after)
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// far is a fence that no clock gives: its epoch lies some thirty thousand years ahead.
var far = lease.Fence{Epoch: 1 << 50, Count: 1 << 62}

// app is a database of fenced tables in all the ways that store fences.
func app(t *testing.T) (path string, db *sql.DB) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "app.db")
	db = bareFile(t, path)
	text := func(f lease.Fence) string { return literal(f.Text()) }
	apply(t, db,
		"CREATE TABLE chats (id INTEGER PRIMARY KEY, summary TEXT NOT NULL DEFAULT '', summary_fence TEXT NOT NULL DEFAULT "+zeroFence+")",
		"INSERT INTO chats (id, summary_fence) VALUES (1, "+text(lease.Fence{Count: 9})+"), (2, "+text(far)+"), (42, "+text(lease.Fence{Count: 10})+"), (4, '')",
		`CREATE TABLE "a.b" ("f,""x" VARCHAR(40) NOT NULL COLLATE NOCASE)`,
		`INSERT INTO "a.b" VALUES (`+text(lease.Fence{Epoch: 3})+`)`,
		"CREATE TABLE jobs (id INTEGER PRIMARY KEY, fence INTEGER NOT NULL DEFAULT 0)",
		"INSERT INTO jobs VALUES (1, 9), (2, 10), (3, 0)",
		"CREATE TABLE empty (fence TEXT NOT NULL)",
		"CREATE TABLE zero (fence TEXT NOT NULL)",
		"INSERT INTO zero VALUES ("+zeroFence+"), ('')",
		`CREATE TABLE "drop" ("select" NOT NULL)`, // without a type: values keep theirs
		`INSERT INTO "drop" VALUES (12), (`+text(lease.Fence{Count: 11})+`)`,
		`CREATE TABLE "{c}" ("{t}{fence}" TEXT NOT NULL)`,
		`INSERT INTO "{c}" VALUES (`+text(lease.Fence{Count: 13})+`)`,
	)
	return path, db
}

// TestRaiseAbove: whatever the tables hold, the next lease can write it, and says so in the row.
func TestRaiseAbove(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  []string
		floor lease.Fence
		lines []string // what is printed, as patterns
	}{
		{"fence", []string{"-fence", far.String()}, far, nil},
		{"digits", []string{"-fence", far.Text()}, far, nil},
		{"zero", []string{"-fence", "0"}, lease.Fence{}, nil},
		{"a table", []string{"-from-tables", "chats.summary_fence"}, far, []string{`chats\.summary_fence +4 +` + far.String()}},
		{"several", []string{"-from-tables", `jobs.fence, main.chats.summary_fence,empty.fence,zero.fence,"a.b"."f,""x",drop.select,{c}.{t}{fence}`}, far, []string{
			`jobs\.fence +3 +10`,
			`main\.chats\.summary_fence +4 +` + far.String(),
			`empty\.fence +no rows +none`,
			`zero\.fence +2 +0`,
			`a\.b\.f,"x +1 +` + lease.Fence{Epoch: 3}.String(),
			`drop\.select +2 +12`,
			`\{c}\.\{t}\{fence} +1 +13`,
		}},
		{"no rows", []string{"-from-tables", "empty.fence"}, lease.Fence{}, []string{`empty\.fence +no rows +none`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			appPath, appDB := app(t)
			kv := filepath.Join(t.TempDir(), "kv.db")
			store := openStore(t, kv) // open all along, as in a program that was not restarted
			args := append([]string{"leases", "raise-above", "-engine", "sqlite", "-dsn", kv}, tt.args...)
			if tt.lines != nil {
				args = append(args, "-data-dsn", appPath)
			}
			out := must(t, args...)
			want := ""
			if tt.lines != nil {
				want = `COLUMN +ROWS +LARGEST FENCE\n` + strings.Join(tt.lines, `\n`) + `\n`
			}
			want += `raised: every lease taken from now on has a fence above ` + tt.floor.String() + `\n`
			if !regexp.MustCompile("^" + want + "$").MatchString(out) {
				t.Errorf("the output is not\n%s\nbut\n%s", want, out)
			}
			if got := one[int64](t, bareFile(t, kv), "SELECT epoch FROM fencedsql_epoch"); uint64(got) <= tt.floor.Epoch {
				t.Errorf("the store's epoch is %d", got)
			}
			// A lease of the raised store writes the row with the largest fence.
			apply(t, appDB, "UPDATE chats SET summary = '', summary_fence = "+literal(tt.floor.Text())+" WHERE id = 42")
			db, err := fencedsql.Open("sqlite3", appPath, fencedsql.WithTables(fencedsql.Table{Name: "chats", Fence: "summary_fence", Key: []string{"id"}}))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := store.Locks("summaries", time.Minute).Hold(t.Context(), "chat/42", func(ctx context.Context, l *lease.Lease) error {
				_, err := db.ExecContext(ctx, "UPDATE chats SET summary = ? WHERE id = ?", "new", 42)
				return err
			}); err != nil {
				t.Error(err)
			}
			var got lease.Fence
			if err := got.Scan(one[string](t, appDB, "SELECT summary_fence FROM chats WHERE id = 42 AND summary = 'new'")); err != nil || !tt.floor.Less(got) {
				t.Errorf("the row has the fence %v, %v", got, err)
			}
		})
	}
}

// TestDataOfTheStore: the fenced tables are in the store's database, or where the environment says.
func TestDataOfTheStore(t *testing.T) {
	path, db := app(t)
	apply(t, db, must(t, "leases", "ddl", "-engine", "sqlite"))
	raise := []string{"leases", "raise-above", "-engine", "sqlite", "-dsn", path, "-from-tables"}
	if out := must(t, append(raise, "chats.summary_fence")...); !strings.Contains(out, "above "+far.String()) {
		t.Errorf("the output is %s", out)
	}
	other := filepath.Join(t.TempDir(), "other.db")
	apply(t, bareFile(t, other), "CREATE TABLE only (fence INTEGER NOT NULL)", "INSERT INTO only VALUES (5)")
	t.Setenv(dataDSNEnv, other)
	if out := must(t, append(raise, "only.fence")...); !strings.Contains(out, "above 5\n") {
		t.Errorf("the output is %s", out)
	}
	if out := must(t, append(raise, "chats.summary_fence", "-data-engine", "sqlite", "-data-dsn", path)...); !strings.Contains(out, "above "+far.String()) {
		t.Errorf("the output is %s", out)
	}
}

// TestRaiseNothing: where a value is no fence, or there is no such column, nothing is raised. The error names the table and
// the column, and shows no value.
func TestRaiseNothing(t *testing.T) {
	kv := filepath.Join(t.TempDir(), "kv.db")
	openStore(t, kv)
	digits := func(n int) string { return strings.Repeat("7", n) }
	valid := "INSERT INTO bad VALUES (" + zeroFence + ")"
	for name, tt := range map[string]struct {
		create string
		insert []string // all of them into one table
		from   string
		want   string
	}{
		"NULL":           {"fence TEXT", []string{valid, "INSERT INTO bad VALUES (NULL), (NULL)"}, "", "table bad, column fence: 2 of 3 rows hold NULL"},
		"NULL and short": {"fence TEXT", []string{valid, "INSERT INTO bad VALUES (NULL), ('777')"}, "", "table bad, column fence: 1 of 3 rows hold NULL, and 1 of 3 rows hold what is no fence"},
		"39 digits":      {"fence TEXT NOT NULL", []string{valid, "INSERT INTO bad VALUES ('" + digits(39) + "')"}, "", "1 of 2 rows hold what is no fence"},
		"41 digits":      {"fence TEXT NOT NULL", []string{"INSERT INTO bad VALUES ('" + digits(41) + "')"}, "", "1 of 1 rows hold what is no fence"},
		"a letter":       {"fence TEXT NOT NULL", []string{"INSERT INTO bad VALUES ('" + digits(39) + "a')"}, "", "1 of 1 rows hold what is no fence"},
		"a blank":        {"fence TEXT NOT NULL COLLATE RTRIM", []string{"INSERT INTO bad VALUES ('" + digits(39) + " '), (' ')"}, "", "2 of 2 rows hold what is no fence"},
		"a newline":      {"fence TEXT NOT NULL", []string{"INSERT INTO bad VALUES ('" + digits(39) + "' || char(10)), ('" + digits(40) + "' || char(10))"}, "", "2 of 2 rows hold what is no fence"},
		"a NUL":          {"fence TEXT NOT NULL", []string{"INSERT INTO bad VALUES ('" + digits(40) + "' || char(0)), ('" + digits(39) + "' || char(0)), (char(0))"}, "", "3 of 3 rows hold what is no fence"},
		"wide digits":    {"fence TEXT NOT NULL", []string{"INSERT INTO bad VALUES ('" + strings.Repeat("７", 40) + "')"}, "", "1 of 1 rows hold what is no fence"},
		"bytes":          {"fence TEXT NOT NULL", []string{"INSERT INTO bad VALUES (CAST('" + digits(40) + "' AS BLOB))"}, "", "1 of 1 rows hold what is no fence"},
		"a sign":         {"fence TEXT NOT NULL", []string{"INSERT INTO bad VALUES ('+" + digits(39) + "')"}, "", "1 of 1 rows hold what is no fence"},
		"a real":         {"fence INTEGER NOT NULL", []string{"INSERT INTO bad VALUES ('" + digits(40) + "')"}, "", "1 of 1 rows hold what is no fence"},
		"negative":       {"fence INTEGER NOT NULL", []string{"INSERT INTO bad VALUES (-777), (5)"}, "", "1 of 2 rows hold what is no fence"},
		"above 2^128":    {"fence TEXT NOT NULL", []string{"INSERT INTO bad VALUES ('0" + digits(39) + "')"}, "", "table bad, column fence: a row holds a number above 2^128-1"},
		"the last epoch": {"fence TEXT NOT NULL", []string{"INSERT INTO bad VALUES ('" + lease.Fence{Epoch: 1<<64 - 1}.Text() + "')"}, "", "lease: fence too large"},
		"no such table":  {"fence TEXT NOT NULL", nil, "none.fence", "table none, column fence: no such table"},
		"no such column": {"fence TEXT NOT NULL", nil, "bad.none", "table bad, column none: no such column"},
		"a quoted name":  {"fence TEXT NOT NULL", nil, `bad."no ne"`, "table bad, column no ne: no such column"},
		"several": {"fence TEXT", []string{valid, "INSERT INTO bad VALUES ('777')"}, "none.fence,bad.fence,bad.none",
			"table none, column fence: no such table: none\ntable bad, column fence: 1 of 2 rows hold what is no fence: neither 40 digits nor an integer that is not negative\ntable bad, column none: no such column"},
		"an injection": {"fence TEXT NOT NULL", nil, `"bad; DROP TABLE bad"."fence) FROM bad; DROP TABLE bad; --"`, "no such table"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "app.db")
			db := bareFile(t, path)
			apply(t, db, append([]string{"CREATE TABLE bad (" + tt.create + ")"}, tt.insert...)...)
			before := one[int64](t, bareFile(t, kv), "SELECT epoch FROM fencedsql_epoch")
			args := []string{"leases", "raise-above", "-engine", "sqlite", "-dsn", kv, "-data-dsn", path, "-from-tables", cmp.Or(tt.from, "bad.fence")}
			code, out, stderr := call(args...)
			if code != exitFailed || strings.Contains(out, "raised") || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, out, stderr)
			}
			if strings.Contains(stderr, "777") {
				t.Errorf("the error shows a value: %s", stderr)
			}
			after := one[int64](t, bareFile(t, kv), "SELECT epoch FROM fencedsql_epoch")
			if raised := after > before; raised && name != "the last epoch" { // which the store itself refuses, once open
				t.Errorf("the epoch was %d and is %d", before, after)
			}
			one[int](t, db, "SELECT count(*) FROM bad")
		})
	}
}

func TestParseColumns(t *testing.T) {
	for text, want := range map[string]string{
		"chats.fence":                     "chats|fence",
		"a.b.c":                           "a.b|c",
		" a.b , c.d ":                     "a|b c|d",
		`"a.b"."c,d"`:                     "a.b|c,d",
		`"a""b".c,"x".y."z"`:              `a"b|c x.y|z`,
		"a":                               `error: "a" names no table and column: want table.column or schema.table.column`,
		"":                                `error: "" names no table and column: want table.column or schema.table.column`,
		"a.b,":                            `error: "" names no table and column: want table.column or schema.table.column`,
		"a.":                              "error: column of table name \"\": empty, or a part of it is",
		".a":                              "error: table name \"\": empty, or a part of it is",
		"a.b.c.d":                         "error: table name \"a.b.c\": more than a schema and a table",
		`"a.b`:                            `error: "\"a.b" names no table and column: want table.column or schema.table.column`,
		"a.b; DROP TABLE a.b":             "a.b; DROP TABLE a|b",
		"a.`b`":                           "error: column of table name \"`b`\": it has quotes in it; write it without, or a part of it in double quotes",
		"chats.fence,chats.fence":         "chats|fence chats|fence",
		"chats. fence":                    "error: column of table name \" fence\": it begins or ends with a blank",
		`chats."fence" ,jobs."a ""x"" b"`: `chats|fence jobs|a "x" b`,
	} {
		got := ""
		columns, err := parseColumns(text)
		for i, c := range columns {
			if i > 0 {
				got += " "
			}
			got += c.table.String() + "|" + c.column
		}
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("parseColumns(%q) = %s\nwant %s", text, got, want)
		}
	}
}
