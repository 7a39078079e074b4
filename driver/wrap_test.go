package fencedsql

//lint:file-ignore SA1019 old drivers have the deprecated interfaces, and database/sql still asks for them

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// wrapLog is in each every… value below. Those have all methods of their kind, note each call here and answer with the
// every… variables.
type wrapLog struct{ calls [][]any }

func (l *wrapLog) note(method string, args ...any) {
	l.calls = append(l.calls, append([]any{method}, args...))
}

var (
	errEvery         = errors.New("from the full value")
	everyCtx         = context.WithValue(context.Background(), everyKey{}, "every")
	everyValues      = []driver.Value{int64(1), "two"}
	everyNamedValues = []driver.NamedValue{{Ordinal: 1, Value: int64(1)}, {Name: "b", Ordinal: 2, Value: "two"}}
	everyNamedValue  = &driver.NamedValue{Name: "n", Ordinal: 3}
	everyTxOptions   = driver.TxOptions{Isolation: 4, ReadOnly: true}
	everyResult      = driver.RowsAffected(17)
	everyTx          = struct{ driver.Tx }{}
	everyDriver      = struct{ driver.Driver }{}
	everyConverter   = driver.Int32
	everyInnerConn   = struct{ driver.Conn }{}
	everyInnerStmt   = struct{ driver.Stmt }{}
	everyInnerRows   = struct{ driver.Rows }{}
	everyScanType    = reflect.TypeFor[uint16]()
)

type everyKey struct{}

type everyConn struct{ wrapLog }

func (c *everyConn) Prepare(query string) (driver.Stmt, error) {
	c.note("Prepare", query)
	return everyInnerStmt, errEvery
}
func (c *everyConn) Close() error { c.note("Close"); return errEvery }
func (c *everyConn) Begin() (driver.Tx, error) {
	c.note("Begin")
	return everyTx, errEvery
}
func (c *everyConn) Unwrap() driver.Conn { c.note("Unwrap"); return everyInnerConn }
func (c *everyConn) Ping(ctx context.Context) error {
	c.note("Ping", ctx)
	return errEvery
}
func (c *everyConn) Exec(query string, args []driver.Value) (driver.Result, error) {
	c.note("Exec", query, args)
	return everyResult, errEvery
}
func (c *everyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.note("ExecContext", ctx, query, args)
	return everyResult, errEvery
}
func (c *everyConn) Query(query string, args []driver.Value) (driver.Rows, error) {
	c.note("Query", query, args)
	return everyInnerRows, errEvery
}
func (c *everyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.note("QueryContext", ctx, query, args)
	return everyInnerRows, errEvery
}
func (c *everyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.note("PrepareContext", ctx, query)
	return everyInnerStmt, errEvery
}
func (c *everyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.note("BeginTx", ctx, opts)
	return everyTx, errEvery
}
func (c *everyConn) ResetSession(ctx context.Context) error {
	c.note("ResetSession", ctx)
	return errEvery
}
func (c *everyConn) IsValid() bool { c.note("IsValid"); return true }
func (c *everyConn) CheckNamedValue(nv *driver.NamedValue) error {
	c.note("CheckNamedValue", nv)
	return errEvery
}

type everyStmt struct{ wrapLog }

func (s *everyStmt) Close() error  { s.note("Close"); return errEvery }
func (s *everyStmt) NumInput() int { s.note("NumInput"); return 5 }
func (s *everyStmt) Exec(args []driver.Value) (driver.Result, error) {
	s.note("Exec", args)
	return everyResult, errEvery
}
func (s *everyStmt) Query(args []driver.Value) (driver.Rows, error) {
	s.note("Query", args)
	return everyInnerRows, errEvery
}
func (s *everyStmt) Unwrap() driver.Stmt { s.note("Unwrap"); return everyInnerStmt }
func (s *everyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.note("ExecContext", ctx, args)
	return everyResult, errEvery
}
func (s *everyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.note("QueryContext", ctx, args)
	return everyInnerRows, errEvery
}
func (s *everyStmt) CheckNamedValue(nv *driver.NamedValue) error {
	s.note("CheckNamedValue", nv)
	return errEvery
}
func (s *everyStmt) ColumnConverter(idx int) driver.ValueConverter {
	s.note("ColumnConverter", idx)
	return everyConverter
}

type everyRows struct{ wrapLog }

func (r *everyRows) Columns() []string              { r.note("Columns"); return []string{"a", "b"} }
func (r *everyRows) Close() error                   { r.note("Close"); return errEvery }
func (r *everyRows) Next(dest []driver.Value) error { r.note("Next", dest); return errEvery }
func (r *everyRows) Unwrap() driver.Rows            { r.note("Unwrap"); return everyInnerRows }
func (r *everyRows) HasNextResultSet() bool         { r.note("HasNextResultSet"); return true }
func (r *everyRows) NextResultSet() error           { r.note("NextResultSet"); return errEvery }
func (r *everyRows) ColumnTypeScanType(i int) reflect.Type {
	r.note("ColumnTypeScanType", i)
	return everyScanType
}
func (r *everyRows) ColumnTypeDatabaseTypeName(i int) string {
	r.note("ColumnTypeDatabaseTypeName", i)
	return "TINYTEXT"
}
func (r *everyRows) ColumnTypeLength(i int) (int64, bool) {
	r.note("ColumnTypeLength", i)
	return 33, true
}
func (r *everyRows) ColumnTypeNullable(i int) (nullable, ok bool) {
	r.note("ColumnTypeNullable", i)
	return false, true
}
func (r *everyRows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	r.note("ColumnTypePrecisionScale", i)
	return 12, 3, true
}

type everyConnector struct{ wrapLog }

func (c *everyConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c.note("Connect", ctx)
	return everyInnerConn, errEvery
}
func (c *everyConnector) Driver() driver.Driver { c.note("Driver"); return everyDriver }
func (c *everyConnector) Close() error          { c.note("Close"); return errEvery }

// A wrapFace is one interface as this test knows it.
type wrapFace struct {
	name  string
	has   func(v any) bool
	calls []wrapCall
}

// A wrapCall is a call of one method: do makes it through the interface and returns the results.
type wrapCall struct {
	do      func(v any) []any
	method  string
	args    []any
	results []any
}

// wrapFaceOf describes the interface I.
func wrapFaceOf[I any](calls ...wrapCall) wrapFace {
	return wrapFace{
		name:  reflect.TypeFor[I]().String(),
		has:   func(v any) bool { _, ok := v.(I); return ok },
		calls: calls,
	}
}

// wrapCallTo describes the call do of the method named, what arrives and what comes back.
func wrapCallTo[I any](do func(v I) []any, method string, args []any, results ...any) wrapCall {
	return wrapCall{func(v any) []any { return do(v.(I)) }, method, args, results}
}

func everyOf(v ...any) []any { return v }

// A wrapKind is one kind of wrapper: the interface every wrapper has, and the optional ones in the order of the mask.
type wrapKind struct {
	name     string
	base     []wrapFace
	optional []wrapFace
	wrap     func(mask uint) (any, *wrapLog)
}

var wrapKinds = []wrapKind{
	{
		name: "conn",
		wrap: func(mask uint) (any, *wrapLog) { c := new(everyConn); return connWith(c, mask), &c.wrapLog },
		base: []wrapFace{
			wrapFaceOf[driver.Conn](
				wrapCallTo(func(v driver.Conn) []any { return everyOf(v.Prepare("q")) }, "Prepare", everyOf("q"), everyInnerStmt, errEvery),
				wrapCallTo(func(v driver.Conn) []any { return everyOf(v.Close()) }, "Close", nil, errEvery),
				wrapCallTo(func(v driver.Conn) []any { return everyOf(v.Begin()) }, "Begin", nil, everyTx, errEvery)),
			wrapFaceOf[connWrapper](
				wrapCallTo(func(v connWrapper) []any { return everyOf(v.Unwrap()) }, "Unwrap", nil, everyInnerConn)),
		},
		optional: []wrapFace{
			wrapFaceOf[driver.Pinger](
				wrapCallTo(func(v driver.Pinger) []any { return everyOf(v.Ping(everyCtx)) }, "Ping", everyOf(everyCtx), errEvery)),
			wrapFaceOf[driver.Execer](
				wrapCallTo(func(v driver.Execer) []any { return everyOf(v.Exec("q", everyValues)) },
					"Exec", everyOf("q", everyValues), everyResult, errEvery)),
			wrapFaceOf[driver.ExecerContext](
				wrapCallTo(func(v driver.ExecerContext) []any { return everyOf(v.ExecContext(everyCtx, "q", everyNamedValues)) },
					"ExecContext", everyOf(everyCtx, "q", everyNamedValues), everyResult, errEvery)),
			wrapFaceOf[driver.Queryer](
				wrapCallTo(func(v driver.Queryer) []any { return everyOf(v.Query("q", everyValues)) },
					"Query", everyOf("q", everyValues), everyInnerRows, errEvery)),
			wrapFaceOf[driver.QueryerContext](
				wrapCallTo(func(v driver.QueryerContext) []any { return everyOf(v.QueryContext(everyCtx, "q", everyNamedValues)) },
					"QueryContext", everyOf(everyCtx, "q", everyNamedValues), everyInnerRows, errEvery)),
			wrapFaceOf[driver.ConnPrepareContext](
				wrapCallTo(func(v driver.ConnPrepareContext) []any { return everyOf(v.PrepareContext(everyCtx, "q")) },
					"PrepareContext", everyOf(everyCtx, "q"), everyInnerStmt, errEvery)),
			wrapFaceOf[driver.ConnBeginTx](
				wrapCallTo(func(v driver.ConnBeginTx) []any { return everyOf(v.BeginTx(everyCtx, everyTxOptions)) },
					"BeginTx", everyOf(everyCtx, everyTxOptions), everyTx, errEvery)),
			wrapFaceOf[driver.SessionResetter](
				wrapCallTo(func(v driver.SessionResetter) []any { return everyOf(v.ResetSession(everyCtx)) },
					"ResetSession", everyOf(everyCtx), errEvery)),
			wrapFaceOf[driver.Validator](
				wrapCallTo(func(v driver.Validator) []any { return everyOf(v.IsValid()) }, "IsValid", nil, true)),
			wrapFaceOf[driver.NamedValueChecker](
				wrapCallTo(func(v driver.NamedValueChecker) []any { return everyOf(v.CheckNamedValue(everyNamedValue)) },
					"CheckNamedValue", everyOf(everyNamedValue), errEvery)),
		},
	},
	{
		name: "stmt",
		wrap: func(mask uint) (any, *wrapLog) { s := new(everyStmt); return stmtWith(s, mask), &s.wrapLog },
		base: []wrapFace{
			wrapFaceOf[driver.Stmt](
				wrapCallTo(func(v driver.Stmt) []any { return everyOf(v.Close()) }, "Close", nil, errEvery),
				wrapCallTo(func(v driver.Stmt) []any { return everyOf(v.NumInput()) }, "NumInput", nil, 5),
				wrapCallTo(func(v driver.Stmt) []any { return everyOf(v.Exec(everyValues)) },
					"Exec", everyOf(everyValues), everyResult, errEvery),
				wrapCallTo(func(v driver.Stmt) []any { return everyOf(v.Query(everyValues)) },
					"Query", everyOf(everyValues), everyInnerRows, errEvery)),
			wrapFaceOf[stmtWrapper](
				wrapCallTo(func(v stmtWrapper) []any { return everyOf(v.Unwrap()) }, "Unwrap", nil, everyInnerStmt)),
		},
		optional: []wrapFace{
			wrapFaceOf[driver.StmtExecContext](
				wrapCallTo(func(v driver.StmtExecContext) []any { return everyOf(v.ExecContext(everyCtx, everyNamedValues)) },
					"ExecContext", everyOf(everyCtx, everyNamedValues), everyResult, errEvery)),
			wrapFaceOf[driver.StmtQueryContext](
				wrapCallTo(func(v driver.StmtQueryContext) []any { return everyOf(v.QueryContext(everyCtx, everyNamedValues)) },
					"QueryContext", everyOf(everyCtx, everyNamedValues), everyInnerRows, errEvery)),
			wrapFaceOf[driver.NamedValueChecker](
				wrapCallTo(func(v driver.NamedValueChecker) []any { return everyOf(v.CheckNamedValue(everyNamedValue)) },
					"CheckNamedValue", everyOf(everyNamedValue), errEvery)),
			wrapFaceOf[driver.ColumnConverter](
				wrapCallTo(func(v driver.ColumnConverter) []any { return everyOf(v.ColumnConverter(7)) },
					"ColumnConverter", everyOf(7), everyConverter)),
		},
	},
	{
		name: "rows",
		wrap: func(mask uint) (any, *wrapLog) { r := new(everyRows); return rowsWith(r, mask), &r.wrapLog },
		base: []wrapFace{
			wrapFaceOf[driver.Rows](
				wrapCallTo(func(v driver.Rows) []any { return everyOf(v.Columns()) }, "Columns", nil, []string{"a", "b"}),
				wrapCallTo(func(v driver.Rows) []any { return everyOf(v.Close()) }, "Close", nil, errEvery),
				wrapCallTo(func(v driver.Rows) []any { return everyOf(v.Next(everyValues)) }, "Next", everyOf(everyValues), errEvery)),
			wrapFaceOf[rowsWrapper](
				wrapCallTo(func(v rowsWrapper) []any { return everyOf(v.Unwrap()) }, "Unwrap", nil, everyInnerRows)),
		},
		optional: []wrapFace{
			wrapFaceOf[driver.RowsNextResultSet](
				wrapCallTo(func(v driver.RowsNextResultSet) []any { return everyOf(v.HasNextResultSet()) }, "HasNextResultSet", nil, true),
				wrapCallTo(func(v driver.RowsNextResultSet) []any { return everyOf(v.NextResultSet()) }, "NextResultSet", nil, errEvery)),
			wrapFaceOf[driver.RowsColumnTypeScanType](
				wrapCallTo(func(v driver.RowsColumnTypeScanType) []any { return everyOf(v.ColumnTypeScanType(7)) },
					"ColumnTypeScanType", everyOf(7), everyScanType)),
			wrapFaceOf[driver.RowsColumnTypeDatabaseTypeName](
				wrapCallTo(func(v driver.RowsColumnTypeDatabaseTypeName) []any { return everyOf(v.ColumnTypeDatabaseTypeName(7)) },
					"ColumnTypeDatabaseTypeName", everyOf(7), "TINYTEXT")),
			wrapFaceOf[driver.RowsColumnTypeLength](
				wrapCallTo(func(v driver.RowsColumnTypeLength) []any { return everyOf(v.ColumnTypeLength(7)) },
					"ColumnTypeLength", everyOf(7), int64(33), true)),
			wrapFaceOf[driver.RowsColumnTypeNullable](
				wrapCallTo(func(v driver.RowsColumnTypeNullable) []any { return everyOf(v.ColumnTypeNullable(7)) },
					"ColumnTypeNullable", everyOf(7), false, true)),
			wrapFaceOf[driver.RowsColumnTypePrecisionScale](
				wrapCallTo(func(v driver.RowsColumnTypePrecisionScale) []any { return everyOf(v.ColumnTypePrecisionScale(7)) },
					"ColumnTypePrecisionScale", everyOf(7), int64(12), int64(3), true)),
		},
	},
	{
		name: "connector",
		wrap: func(mask uint) (any, *wrapLog) { c := new(everyConnector); return connectorWith(c, mask), &c.wrapLog },
		base: []wrapFace{
			wrapFaceOf[driver.Connector](
				wrapCallTo(func(v driver.Connector) []any { return everyOf(v.Connect(everyCtx)) },
					"Connect", everyOf(everyCtx), everyInnerConn, errEvery),
				wrapCallTo(func(v driver.Connector) []any { return everyOf(v.Driver()) }, "Driver", nil, everyDriver)),
		},
		optional: []wrapFace{
			wrapFaceOf[io.Closer](
				wrapCallTo(func(v io.Closer) []any { return everyOf(v.Close()) }, "Close", nil, errEvery)),
		},
	},
}

// check fails t unless v has exactly the optional interfaces of k that want says, no method besides, and passes each
// method on to the value that writes log.
func (k wrapKind) check(t *testing.T, v any, log *wrapLog, want func(f wrapFace, bit int) bool) {
	t.Helper()
	faces := slices.Clone(k.base)
	for bit, f := range k.optional {
		if want(f, bit) {
			faces = append(faces, f)
		} else if f.has(v) {
			t.Errorf("has %s, which the wrapped value has not", f.name)
		}
	}
	var methods []string
	for _, f := range faces {
		if !f.has(v) {
			t.Errorf("lost %s", f.name)
			continue
		}
		for _, c := range f.calls {
			methods = append(methods, c.method)
			log.calls = nil
			results := c.do(v)
			if wantCalls := [][]any{append([]any{c.method}, c.args...)}; !reflect.DeepEqual(log.calls, wantCalls) {
				t.Errorf("%s: the full value got %v, want %v", c.method, log.calls, wantCalls)
			}
			if !reflect.DeepEqual(results, c.results) {
				t.Errorf("%s: got %v, want %v", c.method, results, c.results)
			}
		}
	}
	var have []string
	for i := range reflect.TypeOf(v).NumMethod() {
		have = append(have, reflect.TypeOf(v).Method(i).Name)
	}
	slices.Sort(methods)
	if !slices.Equal(have, methods) {
		t.Errorf("methods %v, want %v", have, methods)
	}
}

// TestWrapEveryCombination asks the wrapper of each mask for every interface, and calls every method it should have.
func TestWrapEveryCombination(t *testing.T) {
	for _, k := range wrapKinds {
		t.Run(k.name, func(t *testing.T) {
			seen := map[reflect.Type]bool{}
			for mask := range uint(1) << len(k.optional) {
				t.Run(fmt.Sprintf("%#x", mask), func(t *testing.T) {
					v, log := k.wrap(mask)
					k.check(t, v, log, func(_ wrapFace, bit int) bool { return mask>>bit&1 == 1 })
					seen[reflect.TypeOf(v)] = true
					// The interface value that the shim holds, and nothing for what is hidden.
					if size := reflect.TypeOf(v).Elem().Size(); size != reflect.TypeFor[fullConn]().Size() {
						t.Errorf("%d bytes", size)
					}
				})
			}
			if len(seen) != 1<<len(k.optional) {
				t.Errorf("%d types for %d combinations", len(seen), 1<<len(k.optional))
			}
			defer func() {
				if recover() == nil {
					t.Error("no panic for a mask that is too large")
				}
			}()
			k.wrap(1 << len(k.optional))
		})
	}
}

// everyConverts is a driver.ColumnConverter to embed: the field of an embedded driver.ColumnConverter would have the name of
// the interface's method and hide it.
type everyConverts struct{}

func (everyConverts) ColumnConverter(int) driver.ValueConverter { return nil }

// TestWrapInner wraps values with sets of interfaces written out by hand. The wrapped values are never called: their
// embedded interfaces are nil.
func TestWrapInner(t *testing.T) {
	conn := func(inner driver.Conn) (any, *wrapLog) { c := new(everyConn); return wrapConn(c, inner), &c.wrapLog }
	stmt := func(inner driver.Stmt) (any, *wrapLog) { s := new(everyStmt); return wrapStmt(s, inner), &s.wrapLog }
	rows := func(inner driver.Rows) (any, *wrapLog) { r := new(everyRows); return wrapRows(r, inner), &r.wrapLog }
	connector := func(inner driver.Connector) (any, *wrapLog) {
		c := new(everyConnector)
		return wrapConnector(c, inner), &c.wrapLog
	}
	type halfOfNextResultSet interface{ HasNextResultSet() bool }
	type scanTypeAndName interface {
		ColumnTypeScanType(int) reflect.Type
		ColumnTypeDatabaseTypeName(int) string
	}
	type wrapped struct {
		v   any
		log *wrapLog
	}
	with := func(v any, log *wrapLog) wrapped { return wrapped{v, log} }

	for _, test := range []struct {
		kind, name string
		wrapped    wrapped
		want       string // without package names
	}{
		{"conn", "none", with(conn(struct{ driver.Conn }{})), ""},
		{"conn", "other methods only", with(conn(struct {
			driver.Conn
			driver.Tx
			fmt.Stringer
		}{})), ""},
		{"conn", "legacy only", with(conn(struct {
			driver.Conn
			driver.Execer
			driver.Queryer
		}{})), "Execer Queryer"},
		{"conn", "exec only", with(conn(struct {
			driver.Conn
			driver.ExecerContext
		}{})), "ExecerContext"},
		{"conn", "as in pgx", with(conn(struct {
			driver.Conn
			driver.Pinger
			driver.ExecerContext
			driver.QueryerContext
			driver.ConnPrepareContext
			driver.ConnBeginTx
			driver.SessionResetter
			driver.NamedValueChecker
		}{})), "Pinger ExecerContext QueryerContext ConnPrepareContext ConnBeginTx SessionResetter NamedValueChecker"},
		{"conn", "as in go-sqlite3", with(conn(struct {
			driver.Conn
			driver.Pinger
			driver.Execer
			driver.ExecerContext
			driver.Queryer
			driver.QueryerContext
			driver.ConnPrepareContext
			driver.ConnBeginTx
			driver.SessionResetter
		}{})), "Pinger Execer ExecerContext Queryer QueryerContext ConnPrepareContext ConnBeginTx SessionResetter"},
		{"conn", "pool only", with(conn(struct {
			driver.Conn
			driver.SessionResetter
			driver.Validator
		}{})), "SessionResetter Validator"},
		{"conn", "all", with(conn(struct {
			driver.Conn
			driver.Pinger
			driver.Execer
			driver.ExecerContext
			driver.Queryer
			driver.QueryerContext
			driver.ConnPrepareContext
			driver.ConnBeginTx
			driver.SessionResetter
			driver.Validator
			driver.NamedValueChecker
		}{})), "Pinger Execer ExecerContext Queryer QueryerContext ConnPrepareContext ConnBeginTx SessionResetter Validator NamedValueChecker"},

		{"stmt", "none", with(stmt(struct{ driver.Stmt }{})), ""},
		{"stmt", "contexts", with(stmt(struct {
			driver.Stmt
			driver.StmtExecContext
			driver.StmtQueryContext
		}{})), "StmtExecContext StmtQueryContext"},
		{"stmt", "checks only", with(stmt(struct {
			driver.Stmt
			driver.NamedValueChecker
			everyConverts
		}{})), "NamedValueChecker ColumnConverter"},
		{"stmt", "all", with(stmt(struct {
			driver.Stmt
			driver.StmtExecContext
			driver.StmtQueryContext
			driver.NamedValueChecker
			everyConverts
		}{})), "StmtExecContext StmtQueryContext NamedValueChecker ColumnConverter"},

		{"rows", "none", with(rows(struct{ driver.Rows }{})), ""},
		{"rows", "sets only", with(rows(struct{ driver.RowsNextResultSet }{})), "RowsNextResultSet"},
		{"rows", "half of the sets", with(rows(struct {
			driver.Rows
			halfOfNextResultSet
		}{})), ""},
		{"rows", "types", with(rows(struct {
			driver.Rows
			scanTypeAndName
		}{})), "RowsColumnTypeScanType RowsColumnTypeDatabaseTypeName"},
		{"rows", "all", with(rows(struct{ fullRows }{})),
			"RowsNextResultSet RowsColumnTypeScanType RowsColumnTypeDatabaseTypeName RowsColumnTypeLength RowsColumnTypeNullable RowsColumnTypePrecisionScale"},

		{"connector", "none", with(connector(struct{ driver.Connector }{})), ""},
		{"connector", "all", with(connector(struct {
			driver.Connector
			io.Closer
		}{})), "Closer"},
	} {
		t.Run(test.kind+"/"+test.name, func(t *testing.T) {
			k := wrapKinds[slices.IndexFunc(wrapKinds, func(k wrapKind) bool { return k.name == test.kind })]
			want := strings.Fields(test.want)
			found := 0
			k.check(t, test.wrapped.v, test.wrapped.log, func(f wrapFace, _ int) bool {
				_, name, _ := strings.Cut(f.name, ".")
				if slices.Contains(want, name) {
					found++
					return true
				}
				return false
			})
			if found != len(want) {
				t.Errorf("the test wants an interface that it does not know: %v", want)
			}
		})
	}
}

// TestWrapKnowsEveryInterface reads the database/sql/driver package of the toolchain in use. A new interface there is one
// that a driver may have and that our wrappers would hide.
func TestWrapKnowsEveryInterface(t *testing.T) {
	known := map[string]bool{}
	for _, name := range []string{
		"Conn", "Stmt", "Rows", "Connector", // wrapped
		"Driver", "DriverContext", // ours has both; how to open a connector is settled before anything is wrapped
		"Tx", "Result", // have no optional interfaces
		"Valuer", "ValueConverter", // of values, which pass through as they are
	} {
		known["driver."+name] = true
	}
	for _, k := range wrapKinds {
		for _, f := range k.optional {
			known[f.name] = true
		}
	}

	pkg, err := build.Import("database/sql/driver", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	interfaces := 0
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				if _, ok := spec.Type.(*ast.InterfaceType); ok {
					interfaces++
					if !known["driver."+spec.Name.Name] {
						t.Errorf("database/sql/driver has %s, which no wrapper passes on", spec.Name.Name)
					}
				}
			}
			return true
		})
	}
	if interfaces < 20 {
		t.Errorf("found only %d interfaces in %s", interfaces, pkg.Dir)
	}
}

// TestWrapGenerated compares wrap_gen.go with what the generator writes now.
func TestWrapGenerated(t *testing.T) {
	cmd := exec.Command("go", "run", "./internal/wrapgen", "-stdout")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	want, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	have, err := os.ReadFile("wrap_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("wrap_gen.go is out of date: run go generate in this folder")
	}
}

func TestWrapAllocates(t *testing.T) {
	var (
		conn   = new(everyConn)
		stmt   = new(everyStmt)
		rows   = new(everyRows)
		kept   any
		allocs = map[string]float64{
			"conn": testing.AllocsPerRun(100, func() { kept = wrapConn(conn, conn) }),
			"stmt": testing.AllocsPerRun(100, func() { kept = wrapStmt(stmt, stmt) }),
			"rows": testing.AllocsPerRun(100, func() { kept = wrapRows(rows, rows) }),
		}
	)
	_ = kept
	for kind, n := range allocs {
		if n > 1 {
			t.Errorf("%s: %v allocations, want 1", kind, n)
		}
	}
}

// everyQuietConn does nothing in ExecContext.
type everyQuietConn struct{ everyConn }

func (*everyQuietConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return nil, nil
}

func BenchmarkWrapExecContext(b *testing.B) {
	conn := new(everyQuietConn)
	for name, v := range map[string]driver.Conn{"direct": conn, "wrapped": wrapConn(conn, conn)} {
		b.Run(name, func(b *testing.B) {
			execer := v.(driver.ExecerContext)
			b.ReportAllocs()
			for b.Loop() {
				execer.ExecContext(everyCtx, "q", everyNamedValues)
			}
		})
	}
}

func BenchmarkWrap(b *testing.B) {
	b.Run("conn", func(b *testing.B) {
		conn := new(everyConn)
		b.ReportAllocs()
		for b.Loop() {
			wrapConn(conn, conn)
		}
	})
	b.Run("rows", func(b *testing.B) {
		rows := new(everyRows)
		b.ReportAllocs()
		for b.Loop() {
			wrapRows(rows, rows)
		}
	})
}
