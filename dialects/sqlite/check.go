package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sqlc-dev/meyer/ast"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

// check reads the table through the pragma functions
// (https://sqlite.org/pragma.html), and its CREATE TABLE text for what no
// pragma tells: collations, and constraints that resolve conflicts by REPLACE.
func check(ctx context.Context, q dialects.Querier, t dialects.CheckedTable) (*dialects.TableInfo, *dialects.Problem, error) {
	d := ddl{table: quoteName(t.Name), CheckedTable: t}

	// A table in temp hides one in main, and that one those attached later.
	found, err := q.Query(ctx, `SELECT l.schema, l.type FROM pragma_table_list AS l JOIN pragma_database_list AS d ON d.name = l.schema
		WHERE l.name = ? COLLATE NOCASE AND (? = '' OR l.schema = ? COLLATE NOCASE)
		ORDER BY l.schema <> 'temp', d.seq LIMIT 1`, t.Name.Table, t.Name.Schema, t.Name.Schema)
	if err != nil {
		return nil, nil, err
	}
	if len(found) == 0 {
		return nil, &dialects.Problem{Reason: "there is no such table", DDL: d.create()}, nil
	}
	schema, kind := text(found[0][0]), text(found[0][1])
	if kind != "table" {
		return nil, &dialects.Problem{Reason: "it is a " + kind + ", not a table; register the table that is written in the end", DDL: d.create()}, nil
	}

	columns, err := q.Query(ctx, `SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?, ?)`, t.Name.Table, schema)
	if err != nil {
		return nil, nil, err
	}
	definition, err := q.Query(ctx, `SELECT sql FROM `+quote(schema)+`.sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE`, t.Name.Table)
	if err != nil {
		return nil, nil, err
	}
	indexes, err := q.Query(ctx, `SELECT il.name, il.origin, il.partial, ix.name, ix.coll
		FROM pragma_index_list(?, ?) AS il, pragma_index_xinfo(il.name, ?) AS ix
		WHERE il."unique" AND ix.key ORDER BY il.seq, ix.seqno`, t.Name.Table, schema, schema)
	if err != nil {
		return nil, nil, err
	}

	info := &dialects.TableInfo{}
	var create *ast.CreateTableStmt
	if len(definition) == 1 {
		if stmts, err := grammar.ParseString(text(definition[0][0])); err == nil && len(stmts) == 1 {
			create, _ = stmts[0].(*ast.CreateTableStmt)
		}
	}
	if create == nil {
		return nil, &dialects.Problem{Reason: "its CREATE TABLE cannot be read", DDL: d.create()}, nil
	}

	fence := -1
	var pk []string
	for i, c := range columns {
		if number(c[4]) == 0 {
			info.Columns = append(info.Columns, text(c[0]))
		}
		if strings.EqualFold(text(c[0]), t.Fence) {
			fence = i
		}
		if number(c[3]) > 0 {
			pk = append(pk, text(c[0]))
		}
	}
	if fence < 0 {
		return nil, &dialects.Problem{Reason: fmt.Sprintf("it has no column %s", t.Fence), DDL: d.add()}, nil
	}
	c := columns[fence]
	if reason := unfit(text(c[1]), t.Encoding); reason != "" {
		return nil, &dialects.Problem{Reason: fmt.Sprintf("column %s %s", t.Fence, reason), DDL: d.rebuild()}, nil
	}
	if number(c[4]) != 0 {
		return nil, &dialects.Problem{Reason: fmt.Sprintf("column %s is generated", t.Fence), DDL: d.rebuild()}, nil
	}
	if number(c[2]) == 0 {
		return nil, &dialects.Problem{Reason: fmt.Sprintf("column %s may be NULL, and NULL is below no fence", t.Fence), DDL: d.rebuild()}, nil
	}
	if coll := collation(create, t.Fence); !slices.Contains([]string{"BINARY", "NOCASE", "RTRIM"}, coll) {
		return nil, &dialects.Problem{Reason: fmt.Sprintf("column %s has the collation %s, which may order digits otherwise", t.Fence, coll), DDL: d.rebuild()}, nil
	}
	if replaces(create) {
		return nil, &dialects.Problem{
			Reason: "a constraint of it says ON CONFLICT REPLACE, so that a plain INSERT deletes rows whatever their fence",
			DDL:    "-- create the table anew without ON CONFLICT REPLACE",
		}, nil
	}
	if len(t.Key) > 0 && !unique(create, t.Key, pk, indexes) {
		for _, k := range t.Key {
			if !slices.ContainsFunc(columns, func(c []driver.Value) bool { return strings.EqualFold(text(c[0]), k) }) {
				return nil, &dialects.Problem{Reason: "it has no key column " + k}, nil
			}
		}
		return nil, &dialects.Problem{
			Reason: fmt.Sprintf("key (%s) is neither its primary key nor a unique index over whole columns in their own collation; without one leave Key out", strings.Join(t.Key, ", ")),
			DDL:    d.index(),
		}, nil
	}
	return info, nil, nil
}

// unfit says why a column of the declared type does not keep a fence as it
// is, or "". The rules of affinity are https://sqlite.org/datatype3.html#determination_of_column_affinity.
func unfit(declared string, enc lease.Encoding) string {
	t := strings.ToUpper(declared)
	affinity := "NUMERIC"
	switch {
	case strings.Contains(t, "INT"):
		affinity = "INTEGER"
	case strings.Contains(t, "CHAR"), strings.Contains(t, "CLOB"), strings.Contains(t, "TEXT"):
		affinity = "TEXT"
	case strings.Contains(t, "BLOB"), t == "":
		affinity = "BLOB"
	case strings.Contains(t, "REAL"), strings.Contains(t, "FLOA"), strings.Contains(t, "DOUB"):
		affinity = "REAL"
	}
	want := "TEXT"
	if enc == lease.Int64 {
		want = "INTEGER"
	}
	if affinity != want {
		return fmt.Sprintf("is declared %q, of %s affinity; fences in the %v encoding need %s", declared, affinity, enc, want)
	}
	if m := length.FindStringSubmatch(t); want == "TEXT" && m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n < 40 {
			return fmt.Sprintf("is declared %q; a fence takes 40 characters", declared)
		}
	}
	return ""
}

var length = regexp.MustCompile(`\(\s*(\d+)`)

func collation(create *ast.CreateTableStmt, column string) string {
	coll := "BINARY"
	for _, c := range create.Columns {
		if !strings.EqualFold(c.Name.Name, column) {
			continue
		}
		for _, k := range c.Constraints {
			if k.Collation != nil {
				coll = strings.ToUpper(k.Collation.Name)
			}
		}
	}
	return coll
}

func replaces(create *ast.CreateTableStmt) bool {
	for _, c := range create.Columns {
		for _, k := range c.Constraints {
			if k.OnConflict == ast.ConflictReplace {
				return true
			}
		}
	}
	for _, k := range create.Constraints {
		if k.OnConflict == ast.ConflictReplace {
			return true
		}
	}
	return false
}

// unique reports whether at most one row has a given value in every key
// column: some unique index, neither partial nor over expressions, lies within
// the key and compares as the columns themselves do.
func unique(create *ast.CreateTableStmt, key, pk []string, indexes [][]driver.Value) bool {
	inKey := func(column string) bool {
		return slices.ContainsFunc(key, func(k string) bool { return strings.EqualFold(k, column) })
	}
	fits := map[string]bool{}
	rowid := len(pk) == 1 // an INTEGER PRIMARY KEY is the rowid and has no index of its own
	for _, ix := range indexes {
		index, column := text(ix[0]), text(ix[3])
		if _, seen := fits[index]; !seen {
			fits[index] = true
		}
		if text(ix[1]) == "pk" {
			rowid = false
		}
		// The column of an index over an expression has no name.
		if number(ix[2]) != 0 || column == "" || !inKey(column) || !strings.EqualFold(text(ix[4]), collation(create, column)) {
			fits[index] = false
		}
	}
	for _, ok := range fits {
		if ok {
			return true
		}
	}
	return rowid && inKey(pk[0])
}

func number(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

func quote(name string) string { return dialect{}.Quote(name) }

func quoteName(n dialects.Name) string {
	if n.Schema == "" {
		return quote(n.Table)
	}
	return quote(n.Schema) + "." + quote(n.Table)
}

// ddl writes the statements that make a table fit.
type ddl struct {
	table string
	dialects.CheckedTable
}

func (d ddl) column() string {
	if d.Encoding == lease.Int64 {
		return quote(d.Fence) + " INTEGER NOT NULL DEFAULT 0"
	}
	return quote(d.Fence) + " TEXT NOT NULL DEFAULT '" + lease.Fence{}.Text() + "'"
}

// create has the columns that fencing needs; the caller knows the others.
func (d ddl) create() string {
	if len(d.Key) == 0 {
		return "CREATE TABLE " + d.table + " (id INTEGER PRIMARY KEY, " + d.column() + ")"
	}
	columns := ""
	for _, k := range d.Key {
		columns += quote(k) + " NOT NULL, "
	}
	return "CREATE TABLE " + d.table + " (" + columns + d.column() + ", PRIMARY KEY (" + d.keys() + "))"
}

func (d ddl) add() string { return "ALTER TABLE " + d.table + " ADD COLUMN " + d.column() }

// rebuild replaces the column: SQLite cannot change one in place.
func (d ddl) rebuild() string {
	fence, old := quote(d.Fence), quote(d.Fence+"_old")
	value := "substr('" + lease.Fence{}.Text() + "' || coalesce(" + old + ", ''), -40)"
	if d.Encoding == lease.Int64 {
		value = "CAST(coalesce(" + old + ", 0) AS INTEGER)"
	}
	return "ALTER TABLE " + d.table + " RENAME COLUMN " + fence + " TO " + old + ";\n" +
		d.add() + ";\n" +
		"UPDATE " + d.table + " SET " + fence + " = " + value + ";\n" +
		"ALTER TABLE " + d.table + " DROP COLUMN " + old
}

func (d ddl) index() string {
	on := d.table
	name := d.Name.Table + "_" + strings.Join(d.Key, "_")
	if d.Name.Schema != "" { // the schema qualifies the index, not the table
		on = quote(d.Name.Table)
		return "CREATE UNIQUE INDEX " + quote(d.Name.Schema) + "." + quote(name) + " ON " + on + " (" + d.keys() + ")"
	}
	return "CREATE UNIQUE INDEX " + quote(name) + " ON " + on + " (" + d.keys() + ")"
}

func (d ddl) keys() string {
	out := make([]string, len(d.Key))
	for i, k := range d.Key {
		out[i] = quote(k)
	}
	return strings.Join(out, ", ")
}
