package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync/atomic"
	"testing"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
)

// counting counts the statements that database/sql hands to a driver.
type counting struct {
	driver.Connector
	n *atomic.Int32
	// lose, once set, has the answer to the next INSERT lost with its connection.
	lose *atomic.Bool
}

func (c counting) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	return countingConn{inner, c}, err
}

type countingConn struct {
	driver.Conn
	counting
}

// lost is whether the answer to the text is lost.
func (c counting) lost(text string) bool {
	return c.lose != nil && strings.HasPrefix(text, "INSERT") && c.lose.CompareAndSwap(true, false)
}

func (c countingConn) count(err error) {
	if err != driver.ErrSkip {
		c.n.Add(1)
	}
}

func (c countingConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	c.n.Add(1)
	inner, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
	return countingStmt{inner, text, c.counting}, err
}

func (c countingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.n.Add(1)
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c countingConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	res, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args)
	c.count(err)
	if err == nil && c.lost(text) {
		return nil, driver.ErrBadConn
	}
	return res, err
}

func (c countingConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args)
	c.count(err)
	if err == nil && c.lost(text) {
		return nil, drained(rows)
	}
	return rows, err
}

// drained reads rows to the end, where the statement is, and says that nobody knows.
func drained(rows driver.Rows) error {
	row := make([]driver.Value, len(rows.Columns()))
	for rows.Next(row) == nil {
	}
	rows.Close()
	return driver.ErrBadConn
}

type countingStmt struct {
	driver.Stmt
	text string
	counting
}

func (s countingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.n.Add(1)
	res, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	if err == nil && s.lost(s.text) {
		return nil, driver.ErrBadConn
	}
	return res, err
}

func (s countingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.n.Add(1)
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err == nil && s.lost(s.text) {
		return nil, drained(rows)
	}
	return rows, err
}

// connector is the driver's, by its DSN.
func (v *env) connector() driver.Connector {
	v.Helper()
	if v.driver == "fencedsql" {
		name, dsn, _ := strings.Cut(v.dsn, ":")
		inner := env{v.TB, &engine{driver: name}, dsn}
		c, err := fencedsql.NewConnector(inner.connector())
		v.ok(err)
		return c
	}
	db := v.open()
	if d, ok := db.Driver().(driver.DriverContext); ok {
		c, err := d.OpenConnector(v.dsn)
		v.ok(err)
		return c
	}
	return dsnConnector{db.Driver(), v.dsn}
}

type dsnConnector struct {
	driver driver.Driver
	dsn    string
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.driver }

// TestRoundTrips: taking a free key is one statement, or two, and so is giving it back, once the connection is warm.
func TestRoundTrips(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		var n atomic.Int32
		db := sql.OpenDB(counting{v.connector(), &n, nil})
		defer db.Close()
		db.SetMaxOpenConns(1)
		s, err := sqlstore.Open(t.Context(), db)
		v.ok(err)
		defer s.Close()
		locks := s.Locks("f", ttl)
		v.ok(v.must(locks.Acquire(t.Context(), "warm")).Release(t.Context()))
		for _, key := range []string{"warm", "new"} {
			n.Store(0)
			h := v.must(locks.Acquire(t.Context(), key))
			if got := int(n.Swap(0)); got != v.trips {
				t.Errorf("Acquire of a %s key: %d statements, want %d", key, got, v.trips)
			}
			v.ok(h.Release(t.Context()))
			if got := n.Load(); got != 1 {
				t.Errorf("Release: %d statements, want 1", got)
			}
		}
	})
}

// TestSentAgain: the answer to taking a key is lost with its connection, and database/sql sends the statement again, which
// finds the row taken by itself.
func TestSentAgain(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		var n atomic.Int32
		var lose atomic.Bool
		db := sql.OpenDB(counting{v.connector(), &n, &lose})
		defer db.Close()
		s, err := sqlstore.Open(t.Context(), db)
		v.ok(err)
		defer s.Close()
		locks := s.Locks("f", ttl)
		for _, key := range []string{"a", "b"} {
			lose.Store(true)
			h := v.must(locks.TryAcquire(t.Context(), key))
			if lose.Load() {
				t.Fatal("no answer was lost")
			}
			list, err := s.List(t.Context())
			v.ok(err)
			if len(list) != 1 || list[0].Fence != h.Fence() {
				t.Errorf("%+v, want one lease with fence %v", list, h.Fence())
			}
			v.ok(h.Release(t.Context()))
		}
	})
}
