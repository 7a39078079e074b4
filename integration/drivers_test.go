package integration

import (
	"database/sql"
	"database/sql/driver"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/XSAM/otelsql"
	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/ngrok/sqlmw"
)

// optional are the interfaces that database/sql looks for.
var optional = []reflect.Type{
	reflect.TypeFor[driver.Pinger](), reflect.TypeFor[driver.Execer](), reflect.TypeFor[driver.ExecerContext](), //lint:ignore SA1019 they are looked for
	reflect.TypeFor[driver.Queryer](), reflect.TypeFor[driver.QueryerContext](), reflect.TypeFor[driver.ConnPrepareContext](), //lint:ignore SA1019 they are looked for
	reflect.TypeFor[driver.ConnBeginTx](), reflect.TypeFor[driver.SessionResetter](), reflect.TypeFor[driver.Validator](), reflect.TypeFor[driver.NamedValueChecker](),
	reflect.TypeFor[driver.StmtExecContext](), reflect.TypeFor[driver.StmtQueryContext](), reflect.TypeFor[driver.ColumnConverter](), //lint:ignore SA1019 they are looked for
	reflect.TypeFor[driver.RowsNextResultSet](), reflect.TypeFor[driver.RowsColumnTypeScanType](), reflect.TypeFor[driver.RowsColumnTypeDatabaseTypeName](),
	reflect.TypeFor[driver.RowsColumnTypeLength](), reflect.TypeFor[driver.RowsColumnTypeNullable](), reflect.TypeFor[driver.RowsColumnTypePrecisionScale](),
	reflect.TypeFor[io.Closer](),
}

func interfaces(v any) string {
	var out []string
	for _, i := range optional {
		if reflect.TypeOf(v).Implements(i) {
			out = append(out, i.Name())
		}
	}
	return strings.Join(out, " ")
}

// TestOptionalInterfaces: connections, statements and rows have exactly the
// optional interfaces that the real drivers' have.
func TestOptionalInterfaces(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		v := e.open(t)
		same := func(what string, ours, theirs any) {
			t.Helper()
			if got, want := interfaces(ours), interfaces(theirs); got != want {
				t.Errorf("%s %T: %s\nthe bare %T: %s", what, ours, got, theirs, want)
			}
		}
		err := raw(v.db, func(c any) {
			inner := c.(interface{ Unwrap() driver.Conn }).Unwrap()
			same("conn", c, inner)
			for _, text := range []string{"UPDATE j SET v = 'x' WHERE id = 1", "SELECT 1"} {
				ours, err := c.(driver.ConnPrepareContext).PrepareContext(v.under(6), text)
				if err != nil {
					t.Fatal(err)
				}
				same("stmt", ours, ours.(interface{ Unwrap() driver.Stmt }).Unwrap())
				if err := ours.Close(); err != nil {
					t.Error(err)
				}
			}
			if !e.returning {
				return
			}
			ours, err := c.(driver.QueryerContext).QueryContext(v.under(6), "UPDATE j SET v = 'x' WHERE id = 1 RETURNING id", nil)
			if err != nil {
				t.Fatal(err)
			}
			same("rows", ours, ours.(interface{ Unwrap() driver.Rows }).Unwrap())
			if err := ours.Close(); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}

		drv := v.bare.Driver()
		if inner := v.db.Driver().(interface{ Unwrap() driver.Driver }).Unwrap(); inner != drv {
			t.Errorf("DB.Driver wraps a %T, the bare one is a %T", inner, drv)
		}
		bare, err := connectorOf(drv, v.dsn)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := fencedsql.NewConnector(bare, fencedsql.WithDialect(e.dialect), fencedsql.WithTables(tables...))
		if err != nil {
			t.Fatal(err)
		}
		same("connector", ours, bare)
	})
}

// TestReopened: tracers and loggers open a database anew through DB.Driver,
// and what they open is fenced.
func TestReopened(t *testing.T) {
	fencedsql.RegisterTable(tables...)
	each(t, func(t *testing.T, e *engine) {
		base := e.open(t)
		c, err := connectorOf(base.bare.Driver(), base.dsn)
		if err != nil {
			t.Fatal(err)
		}
		fenced, err := fencedsql.NewConnector(c, fencedsql.WithDialect(e.dialect), fencedsql.WithTables(tables...))
		if err != nil {
			t.Fatal(err)
		}
		swapped, err := sql.Open("fencedsql", e.driver+":"+base.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer swapped.Close()
		for _, way := range []struct {
			name, dsn string
			drv       driver.Driver
		}{
			{"sql.Open", e.driver + ":" + base.dsn, swapped.Driver()},
			{"fencedsql.Open", base.dsn, base.db.Driver()},
			{"NewConnector", base.dsn, fenced.Driver()},
		} {
			for _, by := range []struct {
				name string
				drv  driver.Driver
			}{
				{"OpenConnector", way.drv},
				{"Open", onlyOpen{way.drv}},
				{"sqlmw", sqlmw.Driver(way.drv, sqlmw.NullInterceptor{})},
				{"otelsql", otelsql.WrapDriver(way.drv)},
			} {
				t.Run(way.name+" "+by.name, func(t *testing.T) {
					v := base.with(t)
					v.reset()
					c, err := connectorOf(by.drv, way.dsn)
					if err != nil {
						t.Fatal(err)
					}
					v.db = sql.OpenDB(c)
					defer v.db.Close()
					v.ok(v.under(6), 1, "UPDATE j SET v = 'x' WHERE id = 1")
					_, err = v.exec(v.under(6), "UPDATE j SET v = 'x' WHERE id = 2")
					v.fenced(err, "j", 6, 7)
					_, err = v.exec(t.Context(), "UPDATE j SET v = 'y' WHERE id = 1")
					v.is(err, fencedsql.ErrNoLease)
					v.want("j", "1|x|10|f6, 2|b|20|f7")
				})
			}
		}
	})
}

// onlyOpen is a driver as they were before driver.DriverContext.
type onlyOpen struct{ driver.Driver }

// TestSwap: with sql.Open alone, as a program would that had the bare driver.
func TestSwap(t *testing.T) {
	fencedsql.RegisterTable(tables...)
	each(t, func(t *testing.T, e *engine) {
		v := e.open(t)
		db, err := sql.Open("fencedsql", e.driver+":"+v.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		v.db = db
		ctx := v.under(6)
		v.ok(ctx, 1, "UPDATE j SET v = ? WHERE id = ?", "x", 1)
		_, err = v.exec(ctx, "UPDATE j SET v = ? WHERE id = ?", "x", 2)
		v.fenced(err, "j", 6, 7)
		v.want("j", "1|x|10|f6, 2|b|20|f7")
	})
}
