package integration

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"

	fencedsql "github.com/fencedsql/fencedsql/driver"
)

// counting is a connector whose connections count what is asked of them: each
// call is a round trip, or as many as the bare driver makes of it.
type counting struct {
	driver.Connector
	calls *[]string
}

func (c counting) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &countingConn{inner, c.calls}, nil
}

type countingConn struct {
	driver.Conn
	calls *[]string
}

func (c *countingConn) note(call string) { *c.calls = append(*c.calls, call) }

func (c *countingConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	c.note("exec")
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args)
}

func (c *countingConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	c.note("query")
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args)
}

func (c *countingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.note("begin")
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	return countingTx{tx, c}, err
}

func (c *countingConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	var err error
	v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value)
	return err
}

type countingTx struct {
	driver.Tx
	c *countingConn
}

func (t countingTx) Commit() error   { t.c.note("commit"); return t.Tx.Commit() }
func (t countingTx) Rollback() error { t.c.note("rollback"); return t.Tx.Rollback() }

// TestRoundTrips: what each guard asks of the database, once the table was
// checked. Drivers that prepare everything make more of each call, as bare.
func TestRoundTrips(t *testing.T) {
	for _, e := range only([]*engine{sqliteEngines[0], postgresEngines()[3], mariadbEngines()[2]}) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			var calls []string
			c, err := connectorOf(v.bare.Driver(), v.dsn)
			if err != nil {
				t.Fatal(err)
			}
			fenced, err := fencedsql.NewConnector(counting{c, &calls}, fencedsql.WithDialect(e.dialect), fencedsql.WithTables(tables...))
			if err != nil {
				t.Fatal(err)
			}
			v.db = sql.OpenDB(fenced)
			defer v.db.Close()
			v.db.SetMaxOpenConns(1)
			for _, text := range []string{"UPDATE j SET n = 0 WHERE id = 99", "UPDATE nokey SET v = '' WHERE id = 99"} {
				v.ok(v.under(6), 0, text) // the check of the table, and the connection's mode
			}
			for _, c := range []struct {
				text string
				args []any
				ok   bool
				want map[string]string
			}{
				{"UPDATE j SET v = 'x' WHERE id = ?", []any{1}, true, map[string]string{"": "exec"}},
				{"UPDATE j SET v = 'x' WHERE id = ?", []any{2}, false, map[string]string{"": "exec query"}},
				{"UPDATE j SET v = 'x' WHERE id = ?", []any{99}, true, map[string]string{"": "exec query"}},
				{"UPDATE j SET v = 'x' WHERE n = 10", nil, true, map[string]string{"": "exec"}},
				{"UPDATE j SET v = 'x'", nil, false, map[string]string{"": "exec"}},
				{"INSERT INTO j (id, v) VALUES (3, 'c')", nil, true, map[string]string{"": "exec"}},
				{"DELETE FROM j WHERE id = ?", []any{1}, true, map[string]string{"": "exec"}},
				{"DELETE FROM nokey WHERE v = 'a'", nil, true, map[string]string{"": "query", "mysql": "begin query exec commit"}},
				{"DELETE FROM nokey WHERE v = 'b'", nil, false, map[string]string{"": "query", "mysql": "begin query rollback"}},
				{"SELECT 1", nil, true, map[string]string{"": "exec"}},
			} {
				v.reset()
				ctx := v.under(6)
				calls = calls[:0]
				_, err := v.exec(ctx, c.text, c.args...)
				if c.ok != (err == nil) {
					t.Errorf("%s: %v", c.text, err)
				}
				want, ok := c.want[e.dialect]
				if !ok {
					want = c.want[""]
				}
				if got := strings.Join(calls, " "); got != want {
					t.Errorf("%s: %s, want %s", c.text, got, want)
				}
			}
		})
	}
}

// connectorOf is what database/sql makes of a driver and a data source name.
func connectorOf(drv driver.Driver, dsn string) (driver.Connector, error) {
	if dc, ok := drv.(driver.DriverContext); ok {
		return dc.OpenConnector(dsn)
	}
	return dsnOnly{drv, dsn}, nil
}

// dsnOnly is the connector of a driver that has none.
type dsnOnly struct {
	drv driver.Driver
	dsn string
}

func (c dsnOnly) Connect(context.Context) (driver.Conn, error) { return c.drv.Open(c.dsn) }
func (c dsnOnly) Driver() driver.Driver                        { return c.drv }
