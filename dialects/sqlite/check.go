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

// Check reads the table through the pragma functions
// (https://sqlite.org/pragma.html), and its CREATE TABLE text for what no
// pragma tells: collations, and constraints that resolve conflicts by REPLACE.
func (dialect) Check(ctx context.Context, q dialects.Querier, t dialects.CheckedTable) (*dialects.TableInfo, *dialects.Problem, error) {
	d := ddl{table: t.Name.Quoted(quote), CheckedTable: t}

	// A table in temp hides one in main, and that one those attached later.
	// Assert needs json_extract, which a library may lack that has the rest.
	found, err := q.Query(ctx, `SELECT l.schema, l.type, json_extract('[]', '$') FROM pragma_table_list AS l JOIN pragma_database_list AS d ON d.name = l.schema
		WHERE l.name = ? COLLATE NOCASE AND (? = '' OR l.schema = ? COLLATE NOCASE)
		ORDER BY l.schema <> 'temp', d.seq LIMIT 1`, t.Name.Table, t.Name.Schema, t.Name.Schema)
	if err != nil {
		return nil, nil, tooOld(err)
	}
	if len(found) == 0 {
		return nil, dialects.NewProblem(d.create(), "there is no such table"), nil
	}
	schema, kind := dialects.Text(found[0][0]), dialects.Text(found[0][1])
	if kind != "table" {
		return nil, dialects.NewProblem("", "it is a %s, not a plain table; register the table that is written in the end", kind), nil
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
		if stmts, err := grammar.ParseString(dialects.Text(definition[0][0])); err == nil && len(stmts) == 1 {
			create, _ = stmts[0].(*ast.CreateTableStmt)
		}
	}
	if create == nil {
		return nil, dialects.NewProblem("-- create the table anew in simpler terms", "its CREATE TABLE cannot be read"), nil
	}

	fence := -1
	var pk []string
	for i, c := range columns {
		if number(c[4]) == 0 {
			info.Columns = append(info.Columns, dialects.Text(c[0]))
		}
		if strings.EqualFold(dialects.Text(c[0]), t.Fence) {
			fence = i
		}
		if number(c[3]) > 0 {
			pk = append(pk, dialects.Text(c[0]))
		}
	}
	if fence < 0 {
		return nil, dialects.NewProblem(d.add(), "it has no column %s", t.Fence), nil
	}
	c := columns[fence]
	if reason := unfit(dialects.Text(c[1]), t.Encoding); reason != "" {
		return nil, dialects.NewProblem(d.rebuild(), "column %s %s", t.Fence, reason), nil
	}
	if number(c[4]) != 0 {
		return nil, dialects.NewProblem(d.rebuild(), "column %s is generated", t.Fence), nil
	}
	if number(c[2]) == 0 {
		return nil, dialects.NewProblem(d.rebuild(), "column %s may be NULL, and NULL is below no fence", t.Fence), nil
	}
	if coll := collation(create, t.Fence); !slices.Contains([]string{"BINARY", "NOCASE", "RTRIM"}, coll) {
		return nil, dialects.NewProblem(d.rebuild(), "column %s has the collation %s, which may order digits otherwise", t.Fence, coll), nil
	}
	if replaces(create) {
		return nil, dialects.NewProblem("-- create the table anew without ON CONFLICT REPLACE",
			"a constraint of it says ON CONFLICT REPLACE, so that a plain INSERT deletes rows whatever their fence"), nil
	}
	if len(t.Key) > 0 && !dialects.IsUnique(t.Key, indexColumns(create, pk, indexes), strings.EqualFold) {
		for _, k := range t.Key {
			if !slices.ContainsFunc(columns, func(c []driver.Value) bool { return strings.EqualFold(dialects.Text(c[0]), k) }) {
				return nil, dialects.NewProblem("", "it has no key column %s", k), nil
			}
		}
		return nil, dialects.NewProblem(d.index(),
			"key (%s) is neither its primary key nor a unique index over whole columns in their own collation; without one leave Key out", strings.Join(t.Key, ", ")), nil
	}
	return info, nil, nil
}

// tooOld adds to an error of a SQLite that lacks what the dialect needs the
// version that has it (https://sqlite.org/changes.html).
func tooOld(err error) error {
	for _, missing := range []string{"no such table: pragma_", "no such function: json_extract"} {
		if strings.Contains(err.Error(), missing) {
			return fmt.Errorf("SQLite 3.38 or newer is needed, or 3.37 that is built with the JSON functions: %w", err)
		}
	}
	return err
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

// indexColumns reads the rows of the indexes. The column of an expression has
// no name. An INTEGER PRIMARY KEY is the rowid and has no index of its own.
func indexColumns(create *ast.CreateTableStmt, pk []string, indexes [][]driver.Value) []dialects.IndexColumn {
	var out []dialects.IndexColumn
	rowid := len(pk) == 1
	for _, ix := range indexes {
		column := dialects.Text(ix[3])
		if dialects.Text(ix[1]) == "pk" {
			rowid = false
		}
		out = append(out, dialects.IndexColumn{
			Index: dialects.Text(ix[0]), Column: column,
			Counts: number(ix[2]) == 0 && column != "" && strings.EqualFold(dialects.Text(ix[4]), collation(create, column)),
		})
	}
	if rowid {
		out = append(out, dialects.IndexColumn{Column: pk[0], Counts: true})
	}
	return out
}

func number(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

func quote(name string) string { return dialect{}.Quote(name) }

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
	return "CREATE TABLE " + d.table + " (" + columns + d.column() + ", PRIMARY KEY (" + d.KeyList(quote) + "))"
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
		return "CREATE UNIQUE INDEX " + quote(d.Name.Schema) + "." + quote(name) + " ON " + on + " (" + d.KeyList(quote) + ")"
	}
	return "CREATE UNIQUE INDEX " + quote(name) + " ON " + on + " (" + d.KeyList(quote) + ")"
}
