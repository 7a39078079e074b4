package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/integration/servers"
	"github.com/fencedsql/fencedsql/integration/witness"
	"github.com/fencedsql/fencedsql/lease"
)

// An engine is one way to run the suite: a database, the driver that reaches
// it, and the settings of that driver. What engines say differently is data,
// in their dialectTexts; no test asks which engine it runs on.
type engine struct {
	name   string // of the subtest
	driver string // as registered with database/sql
	// create makes a database for the test and returns how to reach it.
	create func(t testing.TB) string
	*dialectTexts
	// gaps are the cases that this engine or driver cannot pass, and why. A
	// gap that passes fails the test.
	gaps map[string]string
}

// dialectTexts is what one SQL dialect says in its own words.
type dialectTexts struct {
	dialect string
	// marker is the n-th parameter marker.
	marker func(n int) string
	// setup makes the tables of the suite, without rows, and the witness.
	setup []string
	// returning is whether every write may have a RETURNING clause.
	returning bool
	// blocked counts the statements in this database that wait for a lock; ""
	// where one writer at a time is all there is.
	blocked string
	// conflict tells the engine's own refusals of concurrent work: it could
	// not serialize, or found a deadlock. They go through to the caller.
	conflict func(err error) bool
	// snapshot is true when REPEATABLE READ refuses a write over a row that
	// changed since the snapshot was taken, whatever its fence.
	snapshot bool
	// unfit makes a table c (id, v, fence) that cannot be fenced by its key
	// id, or at all, by what is wrong with it.
	unfit map[string]string
}

// mark gives the parameters of a text of the suite, "?", the engine's form;
// "??" is a question mark.
func (d *dialectTexts) mark(text string) string {
	var b strings.Builder
	n := 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '?':
			b.WriteByte(text[i])
		case i+1 < len(text) && text[i+1] == '?':
			b.WriteByte('?')
			i++
		default:
			n++
			b.WriteString(d.marker(n))
		}
	}
	return b.String()
}

// tables are the fenced tables of the suite.
var tables = witness.Tables

func text(n uint64) string { return witness.Text(n) }

// env is one case on one engine: the fenced database under test, and the bare
// one through which the outcome is read.
type env struct {
	testing.TB
	*engine
	dsn      string
	db, bare *sql.DB
}

// open gives the engine's database, made once for t, to its subtests.
func (e *engine) open(t testing.TB, opts ...fencedsql.Option) *env {
	t.Helper()
	dsn := e.create(t)
	bare, err := sql.Open(e.driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bare.Close() })
	if len(opts) == 0 {
		opts = []fencedsql.Option{fencedsql.WithTables(tables...)}
	}
	db, err := fencedsql.Open(e.driver, dsn, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	v := &env{TB: t, engine: e, dsn: dsn, db: db, bare: bare}
	v.do(e.setup...)
	v.reset()
	return v
}

// again is the env with new connections to the same database.
func (v *env) again(opts ...fencedsql.Option) *env {
	v.Helper()
	w := *v
	var err error
	if w.bare, err = sql.Open(v.driver, v.dsn); err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { w.bare.Close() })
	if w.db, err = fencedsql.Open(v.driver, v.dsn, opts...); err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { w.db.Close() })
	return &w
}

// with is the env for a subtest, its rows as in the beginning.
func (v *env) with(t testing.TB) *env {
	t.Helper()
	w := *v
	w.TB = t
	w.reset()
	return &w
}

// do runs statements on the bare database.
func (v *env) do(texts ...string) {
	v.Helper()
	for _, s := range texts {
		if _, err := v.bare.Exec(s); err != nil {
			v.Fatalf("%v\nin %s", err, s)
		}
	}
}

func (v *env) reset() {
	v.Helper()
	v.do(witness.Rows...)
}

// under gives the context of a lease with that fence and tells the witness;
// zero stands for no lease.
func (v *env) under(fence uint64) context.Context {
	v.Helper()
	if fence == 0 {
		v.do("UPDATE witness SET fence = NULL")
		return context.Background()
	}
	v.do(witness.Lease(fence))
	return lease.New(fmt.Sprintf("key under %d", fence), lease.Fence{Count: fence}).Context(context.Background())
}

// show reads a table with the bare driver, as witness.Render shows it.
func (v *env) show(table string) string {
	v.Helper()
	rs, err := v.bare.Query("SELECT * FROM " + table + " ORDER BY 1, 2")
	if err != nil {
		v.Fatal(err)
	}
	return witness.Render(v, rs)
}

// want checks a table's rows, and that the witness saw no bare write.
func (v *env) want(table, rows string) {
	v.Helper()
	if got := v.show(table); got != rows {
		v.Errorf("table %s holds\n\t%s\nwant\n\t%s", table, got, rows)
	}
	v.clean()
}

// clean checks that the witness saw no bare write.
func (v *env) clean() {
	v.Helper()
	if got := v.show("violations"); got != "" {
		v.Errorf("the witness saw bare writes: %s", got)
	}
}

const (
	jStart = "1|a|10|f5, 2|b|20|f7"
)

// fenced checks an ErrFenced and what it tells.
func (v *env) fenced(err error, table string, fence, stored uint64) {
	v.Helper()
	var fe *fencedsql.FencedError
	if !errors.Is(err, fencedsql.ErrFenced) || !errors.As(err, &fe) {
		v.Errorf("got %v, want ErrFenced", err)
		return
	}
	if fe.Table != table || fe.Fence != (lease.Fence{Count: fence}) {
		v.Errorf("%+v: want table %s and fence %d", fe, table, fence)
	}
	if !fe.Stored.IsZero() && fe.Stored != (lease.Fence{Count: stored}) {
		v.Errorf("%+v: want stored fence %d", fe, stored)
	}
}

func (v *env) is(err, target error) {
	v.Helper()
	if !errors.Is(err, target) {
		v.Errorf("got %v, want %v", err, target)
	}
}

// exec runs a text of the suite on the fenced database.
func (v *env) exec(ctx context.Context, text string, args ...any) (int64, error) {
	v.Helper()
	return affected(v.db.ExecContext(ctx, v.mark(text), args...))
}

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// ok runs a text that must change n rows.
func (v *env) ok(ctx context.Context, n int64, text string, args ...any) {
	v.Helper()
	got, err := v.exec(ctx, text, args...)
	if err != nil || got != n {
		v.Errorf("%s: %d rows, %v; want %d rows", text, got, err, n)
	}
}

func TestMain(m *testing.M) { os.Exit(servers.Run(m)) }

// engines are all that the suite runs on.
func engines() []*engine {
	return only(slices.Concat(sqliteEngines, postgresEngines(), mariadbEngines()))
}

// each runs a test on every engine.
func each(t *testing.T, run func(t *testing.T, e *engine)) {
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) { run(t, e) })
	}
}

// only picks engines for a quick run: FENCEDSQL_ENGINES=sqlite3,pgx.
func only(all []*engine) []*engine {
	want := os.Getenv("FENCEDSQL_ENGINES")
	if want == "" {
		return all
	}
	return named(all, strings.Split(want, ",")...)
}

// named are the engines whose names begin so.
func named(all []*engine, prefixes ...string) (out []*engine) {
	for _, e := range all {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(e.name, p) }) {
			out = append(out, e)
		}
	}
	return out
}
