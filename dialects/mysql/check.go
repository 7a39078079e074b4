package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

// check reads the table from information_schema
// (https://dev.mysql.com/doc/refman/8.0/en/information-schema.html), in the
// columns that MySQL, MariaDB and TiDB have in common.
func check(ctx context.Context, q dialects.Querier, t dialects.CheckedTable) (*dialects.TableInfo, *dialects.Problem, error) {
	d := ddl{table: quoteName(t.Name), CheckedTable: t}

	query := func(columns, view, order string) ([][]string, error) {
		// A name without a schema is one of the connection's own database.
		schema, args := "DATABASE()", []driver.Value{t.Name.Table}
		if t.Name.Schema != "" {
			schema, args = "?", []driver.Value{t.Name.Schema, t.Name.Table}
		}
		found, err := q.Query(ctx, "SELECT "+columns+" FROM information_schema."+view+
			" AS s WHERE s.TABLE_SCHEMA = "+schema+" AND s.TABLE_NAME = ?"+order, args...)
		rows := make([][]string, len(found))
		for i, values := range found {
			for _, v := range values {
				rows[i] = append(rows[i], asText(v)) // NULL is ""
			}
		}
		return rows, err
	}
	tables, err := query("s.TABLE_TYPE, s.ENGINE, (SELECT e.TRANSACTIONS FROM information_schema.ENGINES AS e WHERE e.ENGINE = s.ENGINE)", "TABLES", "")
	if err != nil {
		return nil, nil, err
	}
	if len(tables) == 0 {
		return nil, &dialects.Problem{Reason: "there is no such table, or the user may not see it", DDL: d.create()}, nil
	}
	kind, engine, transactions := tables[0][0], tables[0][1], tables[0][2]
	columns, err := query("s.COLUMN_NAME, s.DATA_TYPE, s.IS_NULLABLE, s.CHARACTER_MAXIMUM_LENGTH, s.EXTRA, s.GENERATION_EXPRESSION", "COLUMNS", " ORDER BY s.ORDINAL_POSITION")
	if err != nil {
		return nil, nil, err
	}
	keys, err := query("s.INDEX_NAME, s.COLUMN_NAME, s.SUB_PART, s.NON_UNIQUE", "STATISTICS", " ORDER BY s.INDEX_NAME, s.SEQ_IN_INDEX")
	if err != nil {
		return nil, nil, err
	}

	problem := func(ddl, format string, args ...any) (*dialects.TableInfo, *dialects.Problem, error) {
		return nil, &dialects.Problem{Reason: fmt.Sprintf(format, args...), DDL: ddl}, nil
	}
	// MariaDB's tables WITH SYSTEM VERSIONING keep the old rows apart.
	if kind != "BASE TABLE" && kind != "SYSTEM VERSIONED" {
		return problem(d.create(), "it is a %s, not a table; register the table that is written in the end", strings.ToLower(kind))
	}
	if transactions != "YES" {
		return problem("ALTER TABLE "+d.table+" ENGINE = InnoDB",
			"its engine %s has no transactions, so that a refused statement could not be undone", engine)
	}

	info := &dialects.TableInfo{Key: keyTypes(t.Key, columns)}
	var fence []string
	key := t.Key
	for _, c := range columns {
		if !strings.Contains(strings.ToUpper(c[4]), "INVISIBLE") {
			info.Columns = append(info.Columns, c[0])
		}
		if fold(c[0], t.Fence) {
			fence = c
		}
		// Which is a part of each of its unique indexes, and the same in all rows that are not old ones.
		if kind == "SYSTEM VERSIONED" && c[5] == "ROW END" {
			key = append(slices.Clone(key), c[0])
		}
	}
	if fence == nil {
		return problem(d.add(), "it has no column %s", t.Fence)
	}
	if reason := unfit(fence[1], fence[3], t.Encoding); reason != "" {
		return problem(d.modify(true, fence[2] != "NO"), "column %s %s", t.Fence, reason)
	}
	if fence[5] != "" {
		return problem("ALTER TABLE "+d.table+" DROP COLUMN "+quote(t.Fence)+", ADD COLUMN "+d.column(), "column %s is generated", t.Fence)
	}
	if fence[2] != "NO" {
		return problem(d.modify(false, true), "column %s may be NULL, and NULL is below no fence", t.Fence)
	}
	if len(t.Key) > 0 && !unique(key, keys) {
		for _, k := range t.Key {
			if !slices.ContainsFunc(columns, func(c []string) bool { return fold(c[0], k) }) {
				return problem("", "it has no key column %s", k)
			}
		}
		return problem("ALTER TABLE "+d.table+" ADD UNIQUE INDEX ("+d.keys()+")",
			"key (%s) is neither its primary key nor a unique index over whole columns; without one leave Key out", strings.Join(t.Key, ", "))
	}
	return info, nil, nil
}

// keyTypes tells what a key column may be compared with: a number with a text,
// and an integer with anything else, compares as floating point, where several
// keys are equal.
func keyTypes(key []string, columns [][]string) []dialects.KeyType {
	out := make([]dialects.KeyType, len(key))
	for i, k := range key {
		for _, c := range columns {
			if !fold(c[0], k) {
				continue
			}
			switch t := strings.ToLower(c[1]); {
			case strings.HasSuffix(t, "int"):
				out[i] = dialects.IntegerKey
			case strings.HasSuffix(t, "char"), strings.HasSuffix(t, "text"), strings.HasSuffix(t, "binary"), strings.HasSuffix(t, "blob"), t == "enum", t == "set":
				out[i] = dialects.TextKey
			}
		}
	}
	return out
}

// unfit says why a column of that type does not keep a fence as it is, or "".
// Its collation does not matter: all of these servers' order the ten digits as
// ASCII does, and so do the binary types.
func unfit(dataType, length string, enc lease.Encoding) string {
	dataType = strings.ToLower(dataType)
	n, _ := strconv.ParseInt(length, 10, 64)
	if enc == lease.Int64 {
		if dataType != "bigint" {
			return "is of type " + dataType + "; fences in the int64 encoding need BIGINT"
		}
		return ""
	}
	switch dataType {
	case "tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob":
		return "" // 255 bytes at least
	case "char", "varchar", "varbinary":
		if n < 40 {
			return fmt.Sprintf("is of type %s(%d); a fence takes 40 characters", dataType, n)
		}
		return ""
	case "binary": // a longer one pads with NULs
		if n != 40 {
			return fmt.Sprintf("is of type binary(%d); a fence takes 40 bytes and no more", n)
		}
		return ""
	}
	return "is of type " + dataType + "; fences in the text encoding need CHAR(40), or VARCHAR or TEXT"
}

// unique reports whether at most one row has a given value in every key
// column: some unique index, not over expressions or the beginnings of
// columns, lies within the key.
func unique(key []string, indexes [][]string) bool {
	fits := map[string]bool{}
	for _, ix := range indexes {
		name, column, part, nonUnique := ix[0], ix[1], ix[2], ix[3]
		if _, seen := fits[name]; !seen {
			fits[name] = true
		}
		inKey := false
		for _, k := range key {
			inKey = inKey || fold(k, column)
		}
		if nonUnique != "0" || !inKey || part != "" {
			fits[name] = false
		}
	}
	for _, ok := range fits {
		if ok {
			return true
		}
	}
	return false
}

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
		return quote(d.Fence) + " BIGINT NOT NULL DEFAULT 0"
	}
	return quote(d.Fence) + " CHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '" + lease.Fence{}.Text() + "'"
}

func (d ddl) create() string {
	if len(d.Key) == 0 {
		return "CREATE TABLE " + d.table + " (id BIGINT PRIMARY KEY, …, " + d.column() + ")"
	}
	key := ""
	for _, k := range d.Key {
		key += quote(k) + " … NOT NULL, "
	}
	return "CREATE TABLE " + d.table + " (" + key + "…, " + d.column() + ", PRIMARY KEY (" + d.keys() + "))"
}

func (d ddl) add() string { return "ALTER TABLE " + d.table + " ADD COLUMN " + d.column() }

// modify changes the column in place, keeping what it holds. Without strict
// sql_mode a type that is too small has lost digits, which nothing brings back.
func (d ddl) modify(retype, nullable bool) string {
	fence := quote(d.Fence)
	text := "ALTER TABLE " + d.table + " MODIFY COLUMN " + d.column()
	if nullable {
		text = "UPDATE " + d.table + " SET " + fence + " = 0 WHERE " + fence + " IS NULL;\n" + text
	}
	if d.Encoding == lease.Text && (retype || nullable) {
		text += ";\nUPDATE " + d.table + " SET " + fence + " = LPAD(" + fence + ", 40, '0')"
	}
	return text
}

func (d ddl) keys() string {
	out := make([]string, len(d.Key))
	for i, k := range d.Key {
		out[i] = quote(k)
	}
	return strings.Join(out, ", ")
}
