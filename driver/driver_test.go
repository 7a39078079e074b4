package fencedsql_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
)

// fake is a driver that records what reaches it, and fails as told. It has
// the column check's answers for a table j (id, v, fence).
type fake struct {
	sent []string
	// fail gives the error of the n-th statement on j, from 0.
	fail func(n int, text string) error
	n    int
	conns,
	closed int
	prepareOnly bool
	inTx        bool
	// none is true when no row changes, and stored is then the row's fence.
	none   bool
	stored string
	// prepare gives the error of Prepare.
	prepare error
	// reversed is true when the columns are in the other order.
	reversed bool
	// asked counts the questions about tables, and prepared the statements
	// that are not closed.
	asked, prepared int
	// kept are the arguments of all statements on j, with their values then.
	kept []kept
}

type kept struct{ args, then []driver.NamedValue }

func (f *fake) Connect(context.Context) (driver.Conn, error) {
	f.conns++
	if f.prepareOnly {
		return oldConn{&fakeConn{f}}, nil
	}
	return &fakeConn{f}, nil
}
func (f *fake) Driver() driver.Driver { return nil }
func (f *fake) Close() error          { f.closed++; return nil }

func (f *fake) record(how, text string, args []driver.NamedValue) error {
	if strings.Contains(text, "pragma_") || strings.Contains(text, "sqlite_schema") {
		f.asked++
		return nil
	}
	if text == "BEGIN" && f.inTx {
		return errors.New("cannot start a transaction within a transaction")
	}
	f.kept = append(f.kept, kept{args, slices.Clone(args)})
	_ = append(args, driver.NamedValue{Name: "the driver's own"})
	s := how + " " + text
	for _, a := range args {
		v := a.Value
		if s, ok := v.(string); ok && len(s) == 40 {
			v = "f" + strings.TrimLeft(s, "0")
		}
		s += fmt.Sprintf(" [%v]", v)
	}
	f.sent = append(f.sent, s)
	f.n++
	if f.fail != nil {
		return f.fail(f.n-1, text)
	}
	return nil
}

type fakeConn struct{ *fake }

// oldConn has no method that takes a context, nor have its statements.
type oldConn struct{ driver.Conn }

func (c oldConn) Prepare(text string) (driver.Stmt, error) {
	st, err := c.Conn.Prepare(text)
	return struct{ driver.Stmt }{st}, err
}

func (c *fakeConn) Close() error { return nil }
func (c *fakeConn) Begin() (driver.Tx, error) {
	c.sent, c.inTx = append(c.sent, "begin"), true
	return fakeTx{c.fake}, nil
}
func (c *fakeConn) Prepare(text string) (driver.Stmt, error) {
	if c.prepare != nil {
		return nil, c.prepare
	}
	c.prepared++
	return &fakeStmt{c.fake, text}, nil
}
func (c *fakeConn) ExecContext(_ context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.record("exec", text, args); err != nil {
		return nil, err
	}
	return c.changed(), nil
}
func (c *fakeConn) QueryContext(_ context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.record("query", text, args); err != nil {
		return nil, err
	}
	rows := answer(text)
	if c.reversed && strings.Contains(text, "pragma_table_xinfo") {
		slices.Reverse(rows.rows)
	}
	if c.stored != "" && strings.HasPrefix(text, "SELECT fence") {
		rows.rows = [][]driver.Value{{c.stored}}
	}
	return rows, nil
}

func (f *fake) changed() driver.Result {
	if f.none {
		return driver.RowsAffected(0)
	}
	return driver.RowsAffected(1)
}

type fakeTx struct{ *fake }

func (t fakeTx) Commit() error   { t.sent, t.inTx = append(t.sent, "commit"), false; return nil }
func (t fakeTx) Rollback() error { t.sent, t.inTx = append(t.sent, "rollback"), false; return nil }

type fakeStmt struct {
	*fake
	text string
}

func (s *fakeStmt) Close() error  { s.prepared--; return nil }
func (s *fakeStmt) NumInput() int { return strings.Count(s.text, "?") }
func (s *fakeStmt) Exec(args []driver.Value) (driver.Result, error) {
	if err := s.record("stmt", s.text, ordinals(args)); err != nil {
		return nil, err
	}
	return driver.RowsAffected(1), nil
}
func (s *fakeStmt) ExecContext(_ context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.record("stmt", s.text, args); err != nil {
		return nil, err
	}
	return s.changed(), nil
}
func (s *fakeStmt) Query(args []driver.Value) (driver.Rows, error) {
	if err := s.record("stmt", s.text, ordinals(args)); err != nil {
		return nil, err
	}
	return answer(s.text), nil
}

func ordinals(args []driver.Value) (out []driver.NamedValue) {
	for i, a := range args {
		out = append(out, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return out
}

type fakeRows struct{ rows [][]driver.Value }

func (r *fakeRows) Columns() []string {
	if len(r.rows) == 0 {
		return nil
	}
	return make([]string, len(r.rows[0]))
}
func (r *fakeRows) Close() error { return nil }
func (r *fakeRows) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(dest, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

func answer(text string) *fakeRows {
	switch {
	case strings.Contains(text, "pragma_table_list"):
		return &fakeRows{[][]driver.Value{{"main", "table"}}}
	case strings.Contains(text, "pragma_table_xinfo"):
		return &fakeRows{[][]driver.Value{{"id", "INTEGER", int64(0), int64(1), int64(0)}, {"v", "TEXT", int64(0), int64(0), int64(0)}, {"fence", "TEXT", int64(1), int64(0), int64(0)}}}
	case strings.Contains(text, "sqlite_schema"):
		return &fakeRows{[][]driver.Value{{"CREATE TABLE j (id INTEGER PRIMARY KEY, v TEXT, fence TEXT NOT NULL)"}}}
	}
	return &fakeRows{}
}

func (f *fake) open(t *testing.T, opts ...fencedsql.Option) *sql.DB {
	t.Helper()
	c, err := fencedsql.NewConnector(f, append(opts, fencedsql.WithDialect("sqlite"),
		fencedsql.WithTables(fencedsql.Table{Name: "j", Key: []string{"id"}}))...)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	t.Cleanup(func() {
		db.Close()
		if f.prepared != 0 {
			t.Errorf("%d statements were not closed", f.prepared)
		}
	})
	return db
}

func (f *fake) wants(t *testing.T, want ...string) {
	t.Helper()
	if strings.Join(f.sent, "\n") != strings.Join(want, "\n") {
		t.Errorf("sent\n\t%s\nwant\n\t%s", strings.Join(f.sent, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func under(fence uint64) context.Context {
	return lease.New("k", lease.Fence{Count: fence}).Context(context.Background())
}

const (
	asWritten = "UPDATE j SET v = ? WHERE id = ?"
	asSent    = "UPDATE j SET v = ?, fence = ? WHERE (id = ?) AND fence < ? [x] [f6] [1] [f7]"
)

func TestErrSkipFencesOnce(t *testing.T) {
	// The statement that database/sql prepares instead does not skip.
	f := &fake{fail: func(n int, _ string) error {
		if n == 0 {
			return driver.ErrSkip
		}
		return nil
	}}
	if _, err := f.open(t).ExecContext(under(6), asWritten, "x", 1); err != nil {
		t.Fatal(err)
	}
	f.wants(t, "exec "+asSent, "stmt "+asSent)
}

func TestDriverThatOnlyPrepares(t *testing.T) {
	f := &fake{prepareOnly: true}
	db := f.open(t)
	// Such a driver's statements take no context, and so the lease is that of BeginTx.
	_, err := db.ExecContext(under(6), asWritten, "x", 1)
	if !errors.Is(err, fencedsql.ErrNoLease) {
		t.Errorf("got %v, want ErrNoLease", err)
	}
	f.wants(t)
}

func TestErrBadConn(t *testing.T) { // golang/go#11978
	f := &fake{fail: func(n int, _ string) error {
		if n == 0 {
			return driver.ErrBadConn
		}
		return nil
	}}
	if _, err := f.open(t).ExecContext(under(6), asWritten, "x", 1); err != nil {
		t.Fatal(err)
	}
	f.wants(t, "exec "+asSent, "exec "+asSent)
	if f.conns != 2 {
		t.Errorf("%d connections, want 2", f.conns)
	}
}

func TestRefusalsAreNotRetried(t *testing.T) {
	f := &fake{fail: func(int, string) error {
		return errors.New("bad JSON path: 'fencedsql:0000000000000000000000000000000000000007'")
	}}
	db := f.open(t)
	_, err := db.ExecContext(under(6), "UPDATE j SET v = 1")
	if !errors.Is(err, fencedsql.ErrFenced) || errors.Is(err, driver.ErrBadConn) {
		t.Errorf("got %v", err)
	}
	if len(f.sent) != 1 || f.conns != 1 {
		t.Errorf("sent %q on %d connections", f.sent, f.conns)
	}
	for _, text := range []string{"REPLACE INTO j (id) VALUES (1)", "UPDATE j SET fence = 1"} {
		if _, err := db.ExecContext(under(6), text); !errors.Is(err, fencedsql.ErrUnfenceable) || errors.Is(err, driver.ErrBadConn) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := db.Exec("UPDATE j SET v = 1"); !errors.Is(err, fencedsql.ErrNoLease) || errors.Is(err, driver.ErrBadConn) {
		t.Errorf("got %v", err)
	}
	if len(f.sent) != 1 {
		t.Errorf("a refusal was sent: %q", f.sent)
	}
}

// TestOtherErrorsPass: an error that is not a refusal is the driver's own.
func TestOtherErrorsPass(t *testing.T) {
	own := errors.New("the driver's own")
	f := &fake{fail: func(int, string) error { return own }}
	db := f.open(t)
	for _, text := range []string{"UPDATE j SET v = 1", "UPDATE other SET v = 1", "DELETE FROM j", "DELETE FROM j WHERE id = 1", "INSERT INTO j (id) VALUES (1)"} {
		if _, err := db.ExecContext(under(6), text); err != own {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// TestNoTable: a program that registered nothing believes itself fenced.
func TestNoTable(t *testing.T) {
	f := &fake{}
	c, err := fencedsql.NewConnector(f, fencedsql.WithDialect("sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	defer db.Close()
	for _, try := range []func() error{
		func() error { _, err := db.Exec("CREATE TABLE t (id)"); return err },
		func() error { _, err := db.Query("SELECT 1"); return err },
		func() error { _, err := db.Prepare("SELECT 1"); return err },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "fencedsql.RegisterTable") {
			t.Errorf("got %v", err)
		}
	}
	f.wants(t)
	if _, err := db.ExecContext(fencedsql.Unfenced(context.Background()), "SELECT 1"); err != nil {
		t.Error(err)
	}
}

func TestUntouched(t *testing.T) {
	f := &fake{}
	db := f.open(t)
	for _, text := range []string{"UPDATE other SET v = ?, w = 'j1'", " select\t1 ; -- j", "", "not sql at all", "/* k */ INSERT INTO \"other\" VALUES (?)"} {
		f.sent = nil
		if _, err := db.ExecContext(under(6), text, "a"); err != nil {
			t.Error(err)
		}
		f.wants(t, "exec "+text+" [a]")
	}
	if err := db.Close(); err != nil || f.closed != 1 {
		t.Errorf("Close: %v, the connector was closed %d times", err, f.closed)
	}
}

// TestSecrets: neither errors nor logs show an argument.
func TestSecrets(t *testing.T) {
	var log bytes.Buffer
	f := &fake{fail: func(int, string) error {
		return errors.New("bad JSON path: 'fencedsql:0000000000000000000000000000000000000007'")
	}}
	db := f.open(t, fencedsql.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	for _, c := range []struct {
		ctx  context.Context
		text string
		args []any
	}{
		{under(6), "UPDATE j SET v = ? WHERE n = ?", []any{"hunter2", "hunter2"}},
		{under(6), "UPDATE j SET v = ?", []any{"hunter2", "hunter2"}},
		{context.Background(), "UPDATE j SET v = ? WHERE id = 'hunter2'", []any{"hunter2"}},
		{under(6), "UPDATE j SET v = 'hunter2' 'hunter2' ?", []any{"hunter2"}},
		{under(6), "REPLACE INTO j (v) VALUES ('hunter2', ?)", []any{"hunter2"}},
		{under(6), "UPDATE j SET v = :a", []any{sql.Named("b", "hunter2")}},
	} {
		_, err := db.ExecContext(c.ctx, c.text, c.args...)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n < 4 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("logged\n%s", log.String())
	}
}

// TestOneLeaseManyTexts: ten thousand texts that differ in a comment are all fenced.
func TestManyTexts(t *testing.T) {
	f := &fake{}
	db := f.open(t)
	for i := range 10_000 {
		f.sent = f.sent[:0]
		if _, err := db.ExecContext(under(6), fmt.Sprintf("%s /* %d */", asWritten, i), "x", 1); err != nil {
			t.Fatal(err)
		}
		if len(f.sent) != 1 || !strings.Contains(f.sent[0], "AND fence < ?") {
			t.Fatalf("sent %q", f.sent)
		}
	}
}
