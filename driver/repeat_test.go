package fencedsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
)

// A connection takes a shorter way for a fenced write that is like the one
// before it. These tests send each statement often enough to be on that way.

type execer func(ctx context.Context, text string, args ...any) (sql.Result, error)

// ways are those by which a statement comes to the driver, each on one
// connection. How is what the fake driver calls it.
func ways(t *testing.T, test func(t *testing.T, f *fake, how string, exec execer)) {
	for _, way := range []struct {
		name, how string
		open      func(t *testing.T, db *sql.DB) execer
	}{
		{"Exec", "exec", func(_ *testing.T, db *sql.DB) execer { return db.ExecContext }},
		{"Tx", "exec", func(t *testing.T, db *sql.DB) execer {
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			return tx.ExecContext
		}},
		{"Stmt", "stmt", func(t *testing.T, db *sql.DB) execer {
			stmts := map[string]*sql.Stmt{}
			return func(ctx context.Context, text string, args ...any) (sql.Result, error) {
				if stmts[text] == nil {
					st, err := db.Prepare(text)
					if err != nil {
						return nil, err
					}
					t.Cleanup(func() { st.Close() })
					stmts[text] = st
				}
				return stmts[text].ExecContext(ctx, args...)
			}
		}},
		{"Query", "query", func(_ *testing.T, db *sql.DB) execer {
			return func(ctx context.Context, text string, args ...any) (sql.Result, error) {
				rows, err := db.QueryContext(ctx, text+" RETURNING id", args...)
				if err != nil {
					return nil, err
				}
				return nil, errors.Join(rows.Close(), rows.Err())
			}
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			f := &fake{}
			db := f.open(t)
			db.SetMaxOpenConns(1)
			exec := way.open(t, db)
			f.sent = nil
			test(t, f, way.how, exec)
		})
	}
}

// TestArgumentsAreTheDrivers: a driver may keep its arguments and append to
// them, as the fake one does; what it was given stays as it was.
func TestArgumentsAreTheDrivers(t *testing.T) {
	values := []any{"x", int64(7), 1.5, true, nil, []byte("bytes"), time.Unix(1, 0), strings.Repeat("long", 1000), make([]byte, 4000)}
	ways(t, func(t *testing.T, f *fake, how string, exec execer) {
		const rounds = 150
		for i := range rounds {
			fence, v := uint64(6+i/50), values[i%len(values)]
			ctx := under(fence)
			pinned := []driver.Value{v, text(fence), int64(i), text(fence + 1)}
			if how == "query" { // with RETURNING it takes the assertion
				pinned = []driver.Value{v, text(fence + 1), text(fence), int64(i)}
			}
			for _, s := range []struct {
				text string
				args []any
				sent []driver.Value
			}{
				{asWritten, []any{v, i}, pinned},
				{"INSERT INTO j (id, v) VALUES (?, ?)", []any{i, v}, []driver.Value{int64(i), v, text(fence)}},
				{"UPDATE j SET v = ?", []any{v}, []driver.Value{v, text(fence + 1), text(fence)}},
			} {
				if _, err := exec(ctx, s.text, s.args...); err != nil {
					t.Fatal(err)
				}
				got := f.kept[len(f.kept)-1].args
				ok := len(got) == len(s.sent)
				for n := range min(len(got), len(s.sent)) {
					ok = ok && got[n].Ordinal == n+1 && got[n].Name == "" && fmt.Sprint(got[n].Value) == fmt.Sprint(s.sent[n])
				}
				if !ok {
					t.Fatalf("%s: sent %v, want %v", s.text, got, s.sent)
				}
			}
		}
		if len(f.kept) != 3*rounds {
			t.Errorf("%d statements were sent", len(f.kept))
		}
		for i, k := range f.kept {
			if fmt.Sprint(k.args) != fmt.Sprint(k.then) {
				t.Fatalf("statement %d had the arguments %v, now %v", i, k.then, k.args)
			}
			clear(k.args) // they are the driver's to change, too
		}
		if _, err := exec(under(9), asWritten, "y", 1); err != nil {
			t.Fatal(err)
		}
		if s := f.sent[len(f.sent)-1]; how != "query" && !strings.HasSuffix(s, " [y] [f9] [1] [f10]") {
			t.Errorf("sent %s", s)
		}
	})
}

func text(fence uint64) string { return lease.Fence{Count: fence}.Text() }

// TestRepeatedIsJudged: what a write gives is judged the tenth time as it is
// the first time.
func TestRepeatedIsJudged(t *testing.T) {
	const assertion = "UPDATE j SET v = ?"
	own := errors.New("the driver's own")
	refused := errors.New("bad JSON path: 'fencedsql:" + text(7) + "'")
	ways(t, func(t *testing.T, f *fake, how string, exec execer) {
		if how == "query" {
			return // it has no count to judge, and rows.go judges its errors
		}
		write := func(text string, args ...any) func(ctx context.Context) error {
			return func(ctx context.Context) error { _, err := exec(ctx, text, args...); return err }
		}
		pinned, all := write(asWritten, "x", 1), write(assertion, "x")
		for range 10 {
			if err := errors.Join(pinned(under(6)), all(under(6))); err != nil {
				t.Fatal(err)
			}
		}
		f.none, f.stored = true, text(5)
		for range 2 {
			if err := pinned(under(6)); err != nil {
				t.Errorf("no row: %v", err)
			}
		}
		f.none = false
		if got := f.sent[len(f.sent)-1]; got != "query SELECT fence FROM j WHERE id = ?1 [1]" {
			t.Errorf("asked %s", got)
		}
		f.fail = func(int, string) error { return own }
		for _, write := range []func(context.Context) error{pinned, all} {
			if err := write(under(6)); err != own {
				t.Errorf("got %v, want the driver's own", err)
			}
		}
		f.fail = nil
		sent := len(f.sent)
		for name, ctx := range map[string]context.Context{
			"no lease": context.Background(),
			"no fence": lease.New("k", lease.Fence{}).Context(context.Background()),
		} {
			if err := pinned(ctx); !errors.Is(err, fencedsql.ErrNoLease) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := write(asWritten, "x")(under(6)); err == nil {
			t.Error("too few arguments pass")
		}
		if len(f.sent) != sent {
			t.Errorf("sent %q", f.sent[sent:])
		}
		if err := pinned(fencedsql.Unfenced(under(6))); err != nil {
			t.Error(err)
		}
		if got, want := f.sent[len(f.sent)-1], how+" "+asWritten+" [x] [1]"; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
		// Last, since a transaction goes no further after it.
		want := fencedsql.FencedError{Table: "j", Lease: "k", Fence: lease.Fence{Count: 6}, Stored: lease.Fence{Count: 7}}
		var fe *fencedsql.FencedError
		f.none, f.stored = true, text(7)
		if err := pinned(under(6)); !errors.As(err, &fe) || *fe != want {
			t.Errorf("pinned: %v", err)
		}
		if strings.HasSuffix(t.Name(), "Tx") {
			return
		}
		f.none, f.fail, fe = false, func(int, string) error { return refused }, nil
		if err := all(under(6)); !errors.As(err, &fe) || *fe != want {
			t.Errorf("assertion: %v", err)
		}
	})
}

// TestRepeatedErrSkip: the driver may want a text prepared that it took before.
func TestRepeatedErrSkip(t *testing.T) {
	f := &fake{}
	db := f.open(t)
	db.SetMaxOpenConns(1)
	for range 3 {
		if _, err := db.ExecContext(under(6), asWritten, "x", 1); err != nil {
			t.Fatal(err)
		}
	}
	f.sent, f.fail = nil, func(n int, _ string) error {
		switch n {
		case 3:
			return driver.ErrSkip
		case 5:
			return driver.ErrBadConn
		}
		return nil
	}
	for range 2 {
		if _, err := db.ExecContext(under(6), asWritten, "x", 1); err != nil {
			t.Fatal(err)
		}
	}
	f.wants(t, "exec "+asSent, "stmt "+asSent, "exec "+asSent, "exec "+asSent)
	if f.conns != 2 {
		t.Errorf("%d connections, want 2", f.conns)
	}
}

// TestAlikeTexts: texts of one length, one middle and one end are not mistaken.
func TestAlikeTexts(t *testing.T) {
	f := &fake{}
	db := f.open(t)
	db.SetMaxOpenConns(1)
	rest := " SET v = ?, w = 'something', u = 'something else' WHERE id = ?"
	for range 3 {
		for _, table := range []string{"j", "k"} {
			f.sent = nil
			if _, err := db.ExecContext(under(6), "UPDATE "+table+rest, "x", 1); err != nil {
				t.Fatal(err)
			}
			if fenced := strings.Contains(f.sent[0], "fence"); fenced != (table == "j") {
				t.Errorf("sent %q", f.sent)
			}
		}
	}
	for n := range 40 { // short ones, too
		text := "SELECT 1 /*" + strings.Repeat(".", n) + "*/"
		for range 2 {
			f.sent = nil
			if _, err := db.ExecContext(under(6), text[min(n, len(text)-1):]); err != nil {
				t.Fatal(err)
			}
			f.wants(t, "exec "+text[min(n, len(text)-1):])
		}
	}
}

// TestTablesTakeTurns: one lease's fence means another bound for a table that
// is registered Once.
func TestTablesTakeTurns(t *testing.T) {
	f := &fake{}
	db := f.open(t, fencedsql.WithTables(fencedsql.Table{Name: "once", Once: true}))
	db.SetMaxOpenConns(1)
	for range 3 {
		f.sent = nil
		for _, text := range []string{"UPDATE j SET v = ?", "UPDATE once SET v = ?"} {
			if _, err := db.ExecContext(under(6), text, "x"); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []string{" [x] [f7] [f6]", " [x] [f6] [f6]"} {
			if !strings.HasSuffix(f.sent[i], want) {
				t.Errorf("sent %s, want %s", f.sent[i], want)
			}
		}
	}
}

// TestTableChanges: a text whose plan depends on the table is decided anew when
// the table changed, and a statement that cannot be prepared anew the next time.
func TestTableChanges(t *testing.T) {
	f := &fake{}
	db := f.open(t)
	db.SetMaxOpenConns(1)
	const insert = "INSERT INTO j VALUES (?, ?)"
	st, err := db.Prepare(insert)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	sends := func(columns string) {
		t.Helper()
		f.sent = nil
		for range 2 {
			_, err := db.ExecContext(under(6), insert, 1, 2)
			if _, serr := st.ExecContext(under(6), 1, 2); err != nil || serr != nil {
				t.Fatal(err, serr)
			}
		}
		sent := "INSERT INTO j (" + columns + ", fence) VALUES (?, ?, ?) [1] [2] [f6]"
		f.wants(t, "exec "+sent, "stmt "+sent, "exec "+sent, "stmt "+sent)
	}
	sends("id, v")
	f.reversed = true
	for _, text := range []string{"ALTER TABLE j RENAME TO j", "SELECT 1"} {
		if _, err := db.ExecContext(fencedsql.Unfenced(context.Background()), text); err != nil {
			t.Fatal(err)
		}
	}
	f.sent = nil
	if _, err := db.ExecContext(under(6), insert, 1, 2); err != nil {
		t.Fatal(err)
	}
	f.prepare = errors.New("not now")
	for range 2 {
		if _, err := st.ExecContext(under(6), 1, 2); err != f.prepare {
			t.Errorf("got %v", err)
		}
	}
	f.wants(t, "exec INSERT INTO j (v, id, fence) VALUES (?, ?, ?) [1] [2] [f6]")
	f.prepare = nil
	sends("v, id")
}

// TestDoubtedColumns: an error of an INSERT without a column list may come
// from a table that others have changed; that plan is made anew, and no other.
func TestDoubtedColumns(t *testing.T) {
	f := &fake{}
	db := f.open(t)
	db.SetMaxOpenConns(1)
	const insert = "INSERT INTO j VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET v = 'again'"
	st, err := db.Prepare(insert)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	warm := func() {
		t.Helper()
		for range 2 {
			for _, err := range []error{
				second(db.ExecContext(under(6), insert, 1, 2)), second(st.ExecContext(under(6), 1, 2)), second(db.ExecContext(under(6), asWritten, "x", 1)),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	warm()
	other := errors.New("UNIQUE constraint failed")
	for _, fails := range []struct {
		err    error
		asked  int // about the table, by the statement and the prepared one
		column string
	}{
		{other, 4, "v, id"},
		{errors.New("bad JSON path: 'fencedsql:" + text(7) + "'"), 0, "v, id"},
	} {
		f.reversed, f.asked = !f.reversed, 0
		f.fail = func(int, string) error { return fails.err }
		if _, err := db.ExecContext(under(6), insert, 1, 2); err == nil || errors.Is(err, fencedsql.ErrFenced) != (fails.err != other) {
			t.Errorf("got %v", err)
		}
		if _, err := st.ExecContext(under(6), 1, 2); err == nil {
			t.Error("no error")
		}
		f.fail, f.sent = nil, nil
		warm()
		if f.asked != fails.asked {
			t.Errorf("after %v: asked %d times, want %d", fails.err, f.asked, fails.asked)
		}
		for _, i := range []int{0, 1} {
			if len(f.sent) < 2 || !strings.Contains(f.sent[i], "("+fails.column+", fence)") {
				t.Errorf("after %v: sent %q", fails.err, f.sent)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestTableChangesElsewhere: another connection changed the table.
func TestTableChangesElsewhere(t *testing.T) {
	f := &fake{}
	db := f.open(t)
	conns := [2]*sql.Conn{}
	for i := range conns {
		c, err := db.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	send := func(conn int, ctx context.Context, text string, args ...any) {
		t.Helper()
		if _, err := conns[conn].ExecContext(ctx, text, args...); err != nil {
			t.Fatal(err)
		}
	}
	for i, others := range [][]string{{}, {}, {"SELECT 1"}} {
		f.reversed = i%2 == 1
		send(1, fencedsql.Unfenced(context.Background()), "ALTER TABLE j RENAME TO j")
		send(1, context.Background(), "SELECT 1")
		for _, text := range others {
			send(0, context.Background(), text)
		}
		columns := "id, v"
		if f.reversed {
			columns = "v, id"
		}
		f.sent = nil
		for range 2 {
			send(0, under(6), "INSERT INTO j VALUES (?, ?)", 1, 2)
		}
		sent := "exec INSERT INTO j (" + columns + ", fence) VALUES (?, ?, ?) [1] [2] [f6]"
		f.wants(t, sent, sent)
	}
}

// TestNewConnection: on one that encoded no fence yet, no fence is not the
// same as that.
func TestNewConnection(t *testing.T) {
	f := &fake{}
	db := f.open(t)
	if _, err := db.ExecContext(under(6), asWritten, "x", 1); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	first, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	_, err = second.ExecContext(lease.New("k", lease.Fence{}).Context(ctx), asWritten, "x", 1)
	if !errors.Is(err, fencedsql.ErrNoLease) || f.conns != 2 {
		t.Errorf("got %v on %d connections", err, f.conns)
	}
	f.wants(t, "exec "+asSent)
}

// TestRepeatedOtherwise: what takes more than one text and arguments in order.
func TestRepeatedOtherwise(t *testing.T) {
	f := &fake{}
	db := f.open(t)
	for _, c := range []struct {
		text string
		args []any
		sent string
	}{
		{"UPDATE j SET v = :v WHERE id = :id", []any{sql.Named("id", 1), sql.Named("v", "x")}, "exec UPDATE j SET v = ?1, fence = ?3 WHERE (id = ?2) AND fence < ?4 [x] [1] [f6] [f7]"},
		{"DELETE FROM j WHERE v = ?", []any{"x"}, "query DELETE FROM j WHERE v = ? RETURNING " +
			"CASE WHEN j.fence < ? THEN NULL ELSE json_extract('{}', 'fencedsql:' || coalesce(j.fence, 'NULL')) END [x] [f7]"},
	} {
		for range 3 {
			f.sent = nil
			if _, err := db.ExecContext(under(6), c.text, c.args...); err != nil {
				t.Fatal(err)
			}
			f.wants(t, c.sent)
		}
	}
}
