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
}

func (c counting) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	return countingConn{inner, c.n}, err
}

type countingConn struct {
	driver.Conn
	n *atomic.Int32
}

func (c countingConn) count(err error) {
	if err != driver.ErrSkip {
		c.n.Add(1)
	}
}

func (c countingConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	c.n.Add(1)
	inner, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
	return countingStmt{inner, c.n}, err
}

func (c countingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.n.Add(1)
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c countingConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	res, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args)
	c.count(err)
	return res, err
}

func (c countingConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args)
	c.count(err)
	return rows, err
}

type countingStmt struct {
	driver.Stmt
	n *atomic.Int32
}

func (s countingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.n.Add(1)
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s countingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.n.Add(1)
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}

// connector is the driver's, by its DSN.
func (v *env) connector() driver.Connector {
	v.Helper()
	db := v.open()
	if v.driver == "fencedsql" {
		_, dsn, _ := strings.Cut(v.dsn, ":")
		c, err := fencedsql.NewConnector(dsnConnector{db.Driver(), dsn})
		v.ok(err)
		return c
	}
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
		db := sql.OpenDB(counting{v.connector(), &n})
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
