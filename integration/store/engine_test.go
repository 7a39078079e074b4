// Package store tests the lease store on real databases.
package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "github.com/mattn/go-sqlite3"
	_ "modernc.org/sqlite"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/integration/servers"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(jobVariable); job != "" {
		work(job)
		return
	}
	// For the engine whose driver is fencedsql, as in a program whose data has the same database as its leases.
	fencedsql.RegisterTable(fencedsql.Table{Name: "chats", Key: []string{"id"}})
	os.Exit(servers.Run(m))
}

// An engine is a database and the driver that reaches it.
type engine struct {
	name    string
	driver  string
	dialect string
	create  func(t testing.TB) (dsn string)
	// trips are the statements that taking a free key takes.
	trips int
	// schema is whether there is CREATE SCHEMA.
	schema bool
	marker func(n int) string
}

func question(int) string { return "?" }
func dollar(n int) string { return "$" + string(rune('0'+n)) }

// sqliteFile is a new file. What a process that was killed had written is in it; a power cut is another matter.
func sqliteFile(pragmas string) func(t testing.TB) string {
	return func(t testing.TB) string { return "file:" + filepath.Join(t.TempDir(), "kv.db") + pragmas }
}

const (
	mattn   = "?_busy_timeout=5000&_journal_mode=WAL&_synchronous=OFF"
	modernc = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
)

func onServer(kind servers.Kind, params ...string) func(t testing.TB) string {
	return func(t testing.TB) string {
		s, err := servers.Shared(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		return s.DSN(s.Database(t), params...)
	}
}

// pooled is behind a PgBouncer that gives each transaction another connection.
func pooled(t testing.TB) string {
	server, err := servers.Postgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := servers.PgBouncer(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	return s.DSN(s.Database(t), "default_query_exec_mode=exec")
}

// The first of each dialect is the one for the long tests.
var engines = []*engine{
	{name: "sqlite3", driver: "sqlite3", dialect: "sqlite", create: sqliteFile(mattn), trips: 1, marker: question},
	{name: "sqlite3 with a journal", driver: "sqlite3", dialect: "sqlite", create: sqliteFile("?_synchronous=OFF"), trips: 1, marker: question},
	{name: "modernc", driver: "sqlite", dialect: "sqlite", create: sqliteFile(modernc), trips: 1, marker: question},
	{name: "sqlite3 fenced", driver: "fencedsql", dialect: "sqlite", create: func(t testing.TB) string { return "sqlite3:" + sqliteFile(mattn)(t) }, trips: 1, marker: question},
	{name: "pgx", driver: "pgx", dialect: "postgres", create: onServer(servers.KindPostgres), trips: 1, schema: true, marker: dollar},
	{name: "pgx simple", driver: "pgx", dialect: "postgres", create: onServer(servers.KindPostgres, "default_query_exec_mode=simple_protocol"), trips: 1, schema: true, marker: dollar},
	{name: "pgx serializable", driver: "pgx", dialect: "postgres", create: onServer(servers.KindPostgres, "default_query_exec_mode=exec", "default_transaction_isolation=serializable"), trips: 1, schema: true, marker: dollar},
	{name: "pgx pooled", driver: "pgx", dialect: "postgres", create: pooled, trips: 1, schema: true, marker: dollar},
	{name: "postgres18", driver: "pgx", dialect: "postgres", create: onServer(servers.KindPostgres18), trips: 1, schema: true, marker: dollar},
	{name: "pq", driver: "postgres", dialect: "postgres", create: onServer(servers.KindPostgres), trips: 1, schema: true, marker: dollar},
	{name: "mariadb", driver: "mysql", dialect: "mysql", create: onServer(servers.KindMariaDB), trips: 2, marker: question},
	{name: "mariadb interpolated", driver: "mysql", dialect: "mysql", create: onServer(servers.KindMariaDB, "interpolateParams=true", "clientFoundRows=true"), trips: 2, marker: question},
	{name: "mariadb strange", driver: "mysql", dialect: "mysql", create: onServer(servers.KindMariaDB, "sql_mode='ANSI_QUOTES,SIMULTANEOUS_ASSIGNMENT,PIPES_AS_CONCAT'", "time_zone='+05:30'", "charset=latin1"), trips: 2, marker: question},
}

// each runs a test on every engine, or those that FENCEDSQL_ENGINES names by the beginning: sqlite3,pgx.
func each(t *testing.T, run func(t *testing.T, v *env)) { inTurn(t, all(), run) }

// eachDialect runs a test on one engine of each dialect.
func eachDialect(t *testing.T, run func(t *testing.T, v *env)) { inTurn(t, firsts(), run) }

func inTurn(t *testing.T, engines []*engine, run func(t *testing.T, v *env)) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) { run(t, &env{t, e, e.create(t)}) })
	}
}

// atOnce is for tests that mostly wait. Of t.Parallel's, only as many would run as the machine has cores.
func atOnce(t *testing.T, engines []*engine, run func(t *testing.T, v *env)) {
	var wg sync.WaitGroup
	for _, e := range engines {
		wg.Go(func() {
			t.Run(e.name, func(t *testing.T) { run(t, &env{t, e, e.create(t)}) })
		})
	}
	wg.Wait()
}

func all() []*engine {
	return slices.DeleteFunc(slices.Clone(engines), func(e *engine) bool { return !chosen(e) })
}

// firsts are the engines for the long tests.
func firsts() (list []*engine) {
	done := map[string]bool{}
	for _, e := range engines {
		if !done[e.dialect] && chosen(e) {
			list = append(list, e)
		}
		done[e.dialect] = true
	}
	return list
}

func chosen(e *engine) bool {
	want := os.Getenv("FENCEDSQL_ENGINES")
	for _, w := range strings.Split(want, ",") {
		if strings.HasPrefix(e.name, w) {
			return true
		}
	}
	return false
}

// env is a database for one test.
type env struct {
	testing.TB
	*engine
	dsn string
}

func (v *env) open() *sql.DB {
	v.Helper()
	db, err := sql.Open(v.driver, v.dsn)
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { db.Close() })
	return db
}

// store is one as a process of its own would have it: with its own connections.
func (v *env) store(opts ...sqlstore.Option) *sqlstore.Store {
	v.Helper()
	return v.storeOn(v.open(), opts...)
}

func (v *env) storeOn(db *sql.DB, opts ...sqlstore.Option) *sqlstore.Store {
	v.Helper()
	s, err := sqlstore.Open(v.Context(), db, opts...)
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { s.Close() })
	return s
}

// do runs a statement on the database itself, with ? for markers.
func (v *env) do(text string, args ...any) {
	v.Helper()
	db, err := sql.Open(v.driver, v.dsn)
	if err != nil {
		v.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(v.mark(text), args...); err != nil {
		v.Fatalf("%v\nin %s", err, text)
	}
}

func (e *engine) mark(text string) string {
	parts := strings.Split(text, "?")
	for i := 1; i < len(parts); i++ {
		parts[i] = e.marker(i) + parts[i]
	}
	return strings.Join(parts, "")
}

func (v *env) must(h *sqlstore.Held, err error) *sqlstore.Held {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
	return h
}

func (v *env) ok(err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
}

// larger checks that the later of two fences is the larger.
func (v *env) larger(later, earlier lease.Fence) {
	v.Helper()
	if !earlier.Less(later) {
		v.Errorf("fence %#v is not above the earlier %#v", later, earlier)
	}
}

// patience is how long a test waits for what is to happen, on a machine that is busy with something else.
const patience = time.Minute

// ended waits for a lease or context to end.
func (v *env) ended(done <-chan struct{}) {
	v.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		v.Fatalf("not ended within %v", patience)
	}
}

// within is a context for something that must not take for ever.
func (v *env) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(v.Context(), d)
	v.Cleanup(cancel)
	return ctx
}

// refused waits in vain for a key that is held, for as long as it takes to be told that it is.
func (v *env) refused(l *sqlstore.Locks, key string) {
	v.Helper()
	for wait := 300 * time.Millisecond; ; wait *= 2 {
		_, err := l.Acquire(v.within(wait), key)
		if !errors.Is(err, context.DeadlineExceeded) {
			v.Fatalf("got %v, want the deadline and ErrHeld", err)
		}
		if errors.Is(err, lease.ErrHeld) {
			return
		}
		if wait > patience {
			v.Fatal("not told who holds the key: ", err)
		}
	}
}

// eventually waits until a condition holds.
func (v *env) eventually(what string, condition func() bool) {
	v.Helper()
	ctx := v.within(patience)
	for !condition() {
		pause(ctx, 20*time.Millisecond)
		if ctx.Err() != nil {
			v.Fatal("did not happen: ", what)
		}
	}
}

// renewed waits until the store's only lease, of that ttl, has been renewed from now on, or is lost.
func (v *env) renewed(s *sqlstore.Store, l *lease.Lease, ttl time.Duration) {
	v.Helper()
	begun := time.Now()
	v.eventually("a renewal", func() bool {
		list, err := s.List(v.Context())
		return err == nil && len(list) == 1 && list[0].Until.After(begun.Add(ttl)) || l.Err() != nil
	})
}
