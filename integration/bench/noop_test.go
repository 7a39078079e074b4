package bench

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"

	"github.com/fencedsql/fencedsql/dialects"
)

// noopDriver answers at once: every statement changes one row, and gives none. What is left of a call is database/sql
// and what wraps the driver.
type noopDriver struct{}

func init() {
	sql.Register("noop", noopDriver{})
	for _, name := range dialects.Names() {
		d, err := dialects.Get(name)
		if err != nil {
			panic(err)
		}
		dialects.Register(unchecked{d})
	}
}

func (noopDriver) Open(string) (driver.Conn, error) { return &noopConn{}, nil }

// noopConn has the optional interfaces that nearly every driver has, and leaves arguments to database/sql. It has a size,
// since pointers to nothing may all be equal.
type noopConn struct{ _ int }

var (
	_ driver.ExecerContext      = (*noopConn)(nil)
	_ driver.QueryerContext     = (*noopConn)(nil)
	_ driver.ConnPrepareContext = (*noopConn)(nil)
	_ driver.ConnBeginTx        = (*noopConn)(nil)
	_ driver.SessionResetter    = (*noopConn)(nil)
)

func (c *noopConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return noopResult{}, nil
}

func (c *noopConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return noopRows{}, nil
}

func (c *noopConn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return noopStmt{}, nil
}

func (c *noopConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return noopTx{}, nil
}

func (c *noopConn) Prepare(string) (driver.Stmt, error) { return noopStmt{}, nil }
func (c *noopConn) Begin() (driver.Tx, error)           { return noopTx{}, nil }
func (c *noopConn) ResetSession(context.Context) error  { return nil }
func (c *noopConn) Close() error                        { return nil }

type noopResult struct{}

func (noopResult) LastInsertId() (int64, error) { return 0, nil }
func (noopResult) RowsAffected() (int64, error) { return 1, nil }

type noopRows struct{}

func (noopRows) Columns() []string         { return nil }
func (noopRows) Next([]driver.Value) error { return io.EOF }
func (noopRows) Close() error              { return nil }

type noopStmt struct{}

func (noopStmt) NumInput() int                              { return -1 }
func (noopStmt) Exec([]driver.Value) (driver.Result, error) { return noopResult{}, nil }
func (noopStmt) Query([]driver.Value) (driver.Rows, error)  { return noopRows{}, nil }
func (noopStmt) Close() error                               { return nil }
func (noopStmt) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	return noopResult{}, nil
}
func (noopStmt) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	return noopRows{}, nil
}

type noopTx struct{}

func (noopTx) Commit() error   { return nil }
func (noopTx) Rollback() error { return nil }

// unchecked is a dialect for the no-op driver, which has no table to check.
type unchecked struct{ dialects.Dialect }

func (d unchecked) Name() string { return "unchecked " + d.Dialect.Name() }

func (unchecked) Check(context.Context, dialects.Querier, dialects.CheckedTable) (*dialects.TableInfo, *dialects.Problem, error) {
	return &dialects.TableInfo{}, nil, nil
}

func (unchecked) Mode(context.Context, dialects.Querier) (dialects.Mode, error) { return 0, nil }

// LostTx is empty: the no-op driver would say yes to it.
func (unchecked) LostTx() string { return "" }
