// Package command tests the command on real servers.
package command

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3"

	_ "github.com/fencedsql/fencedsql/dialects/mysql"
	_ "github.com/fencedsql/fencedsql/dialects/postgres"
	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
	"github.com/fencedsql/fencedsql/integration/servers"
)

// command is the path of the command, built as its users build it.
var command string

func TestMain(m *testing.M) {
	os.Exit(servers.Run(built{m}))
}

// built builds the command before the tests run.
type built struct{ tests *testing.M }

func (b built) Run() int {
	dir, err := os.MkdirTemp("", "fencedsql-command-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	command = filepath.Join(dir, "fencedsql")
	build := exec.Command("go", "build", "-o", command, "./cmd/fencedsql")
	build.Dir = "../.." // a module of its own
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build ./cmd/fencedsql: %v\n%s", err, out)
		return 1
	}
	return b.tests.Run()
}

// An engine is a database, and how its driver is told to reach it.
type engine struct {
	name    string
	engine  string // as the command calls it
	driver  string
	server  func(t testing.TB) (*servers.Server, error)
	params  []string
	script  []string // parameters under which one call takes a whole script
	dialect *dialect
}

func shared(kind servers.Kind) func(t testing.TB) (*servers.Server, error) {
	return func(t testing.TB) (*servers.Server, error) { return servers.Shared(t.Context(), kind) }
}

// pooled is behind a PgBouncer that gives each transaction another connection.
func pooled(t testing.TB) (*servers.Server, error) {
	server, err := servers.Postgres(t.Context())
	if err != nil {
		return nil, err
	}
	return servers.PgBouncer(t.Context(), server)
}

var (
	simple = []string{"default_query_exec_mode=simple_protocol"}
	multi  = []string{"multiStatements=true"}
)

// The first of each dialect is the one for tests of what no driver's mode changes.
var engines = []*engine{
	{name: "pgx", engine: "postgres", driver: "pgx", server: shared(servers.KindPostgres), script: simple, dialect: &postgres},
	{name: "pgx simple", engine: "postgres", driver: "pgx", server: shared(servers.KindPostgres), params: simple, script: simple, dialect: &postgres},
	{name: "pgx pooled", engine: "postgres", driver: "pgx", server: pooled, params: []string{"default_query_exec_mode=exec"}, script: simple, dialect: &postgres},
	{name: "postgres18", engine: "postgres", driver: "pgx", server: shared(servers.KindPostgres18), script: simple, dialect: &postgres},
	{name: "mariadb", engine: "mysql", driver: "mysql", server: shared(servers.KindMariaDB), script: multi, dialect: &mysql},
	{name: "mariadb interpolated", engine: "mysql", driver: "mysql", server: shared(servers.KindMariaDB), params: []string{"interpolateParams=true", "clientFoundRows=true"}, script: multi, dialect: &mysql},
	{name: "mariadb strange", engine: "mysql", driver: "mysql", server: shared(servers.KindMariaDB), params: []string{"sql_mode='ANSI_QUOTES,SIMULTANEOUS_ASSIGNMENT,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'", "time_zone='+05:30'", "charset=latin1"}, script: multi, dialect: &mysql},
}

// chosen are the engines that FENCEDSQL_ENGINES names by the beginning: pgx,mariadb.
func chosen() (list []*engine) {
	for _, e := range engines {
		for _, w := range strings.Split(os.Getenv("FENCEDSQL_ENGINES"), ",") {
			if strings.HasPrefix(e.name, w) {
				list = append(list, e)
				break
			}
		}
	}
	return list
}

// each runs a test on every engine, eachDialect on one of each dialect.
func each(t *testing.T, run func(t *testing.T, v *env)) { on(t, chosen(), run) }

func eachDialect(t *testing.T, run func(t *testing.T, v *env)) {
	done := map[*dialect]bool{}
	var list []*engine
	for _, e := range chosen() {
		if !done[e.dialect] {
			list = append(list, e)
		}
		done[e.dialect] = true
	}
	on(t, list, run)
}

func on(t *testing.T, list []*engine, run func(t *testing.T, v *env)) {
	for _, e := range list {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s, err := e.server(t)
			if err != nil {
				t.Fatal(err)
			}
			v := &env{t, e, s, s.Database(t)}
			run(t, v)
		})
	}
}

// env is a database for one test.
type env struct {
	testing.TB
	*engine
	server   *servers.Server
	database string
}

func (v *env) dsn(params ...string) string {
	return v.server.DSN(v.database, append(append([]string{}, v.params...), params...)...)
}

// bare opens the database with the bare driver.
func (v *env) bare(params ...string) *sql.DB {
	v.Helper()
	db, err := sql.Open(v.driver, v.dsn(params...))
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { db.Close() })
	return db
}

func (v *env) do(texts ...string) {
	v.Helper()
	db := v.bare()
	defer db.Close()
	for _, text := range texts {
		if _, err := db.Exec(text); err != nil {
			v.Fatalf("%v\nin %s", err, text)
		}
	}
}

// tables are the names of the database's tables.
func (v *env) tables() (names []string) {
	v.Helper()
	rows, err := v.bare().Query("SELECT table_name FROM information_schema.tables WHERE table_schema IN ('public', '" + v.database + "') ORDER BY table_name")
	if err != nil {
		v.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			v.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		v.Fatal(err)
	}
	return names
}

func read[T any](t testing.TB, db *sql.DB, query string, args ...any) (value T) {
	t.Helper()
	if err := db.QueryRow(query, args...).Scan(&value); err != nil {
		t.Fatalf("%v\nin %s", err, query)
	}
	return value
}

// result is what a call of the command came to.
type result struct {
	code        int
	out, stderr string
}

// with makes a call whose environment has the DSNs that are given as NAME=value.
func with(t testing.TB, dsns []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command, args...)
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "FENCEDSQL_DSN=", "FENCEDSQL_DATA_DSN=", "TMPDIR="+t.TempDir())
	cmd.Env = append(cmd.Env, dsns...)
	return cmd
}

func outcome(t testing.TB, cmd *exec.Cmd) result {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
}

// call calls the command with the database's engine, and its DSN in the environment.
func (v *env) call(args ...string) result {
	v.Helper()
	return outcome(v.TB, with(v.TB, []string{"FENCEDSQL_DSN=" + v.dsn()}, append(args, "-engine", v.engine.engine)...))
}

// must is call for what is to succeed.
func (v *env) must(args ...string) string {
	v.Helper()
	r := v.call(args...)
	if r.code != 0 || r.stderr != "" {
		v.Fatalf("%q: exit code %d\n%s\n%s", args, r.code, r.out, r.stderr)
	}
	return r.out
}
