package integration

import (
	"database/sql"
	"database/sql/driver"
	"io"
	"reflect"
	"strings"
	"testing"

	fencedsql "github.com/fencedsql/fencedsql/driver"
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
		if v.db.Driver() != drv {
			t.Errorf("DB.Driver is %T, the bare one %T", v.db.Driver(), drv)
		}
		if dc, ok := drv.(driver.DriverContext); ok {
			inner, err := dc.OpenConnector(v.dsn)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := fencedsql.NewConnector(inner, fencedsql.WithDialect(e.dialect), fencedsql.WithTables(tables...))
			if err != nil {
				t.Fatal(err)
			}
			same("connector", ours, inner)
		}
	})
}

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
