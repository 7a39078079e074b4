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

// Check reads the table from information_schema
// (https://dev.mysql.com/doc/refman/8.0/en/information-schema.html), in the
// columns that MySQL, MariaDB and TiDB have in common.
func (dialect) Check(ctx context.Context, q dialects.Querier, t dialects.CheckedTable) (*dialects.TableInfo, *dialects.Problem, error) {
	d := ddl{table: t.Name.Quoted(quote), CheckedTable: t}

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
				rows[i] = append(rows[i], dialects.Text(v))
			}
		}
		return rows, err
	}
	tables, err := query("s.TABLE_TYPE, s.ENGINE, (SELECT e.TRANSACTIONS FROM information_schema.ENGINES AS e WHERE e.ENGINE = s.ENGINE)", "TABLES", "")
	if err != nil {
		return nil, nil, err
	}
	if len(tables) == 0 {
		return nil, dialects.NewProblem(d.create(), "there is no such table, or the user may not see it"), nil
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

	// MariaDB's tables WITH SYSTEM VERSIONING keep the old rows apart.
	if kind != "BASE TABLE" && kind != "SYSTEM VERSIONED" {
		return nil, dialects.NewProblem("", "it is a %s, not a table; register the table that is written in the end", strings.ToLower(kind)), nil
	}
	if transactions != "YES" {
		return nil, dialects.NewProblem("ALTER TABLE "+d.table+" ENGINE = InnoDB",
			"its engine %s has no transactions, so that a refused statement could not be undone", engine), nil
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
		return nil, dialects.NewProblem(d.add(), "it has no column %s", t.Fence), nil
	}
	if reason := unfit(fence[1], fence[3], t.Encoding); reason != "" {
		return nil, dialects.NewProblem(d.modify(true, fence[2] != "NO"), "column %s %s", t.Fence, reason), nil
	}
	if fence[5] != "" {
		return nil, dialects.NewProblem("ALTER TABLE "+d.table+" DROP COLUMN "+quote(t.Fence)+", ADD COLUMN "+d.column(), "column %s is generated", t.Fence), nil
	}
	if fence[2] != "NO" {
		return nil, dialects.NewProblem(d.modify(false, true), "column %s may be NULL, and NULL is below no fence", t.Fence), nil
	}
	if len(t.Key) > 0 && !dialects.IsUnique(key, indexColumns(keys), fold) {
		for _, k := range t.Key {
			if !slices.ContainsFunc(columns, func(c []string) bool { return fold(c[0], k) }) {
				return nil, dialects.NewProblem("", "it has no key column %s", k), nil
			}
		}
		return nil, dialects.NewProblem("ALTER TABLE "+d.table+" ADD UNIQUE INDEX ("+d.KeyList(quote)+")",
			"key (%s) is neither its primary key nor a unique index over whole columns; without one leave Key out", strings.Join(t.Key, ", ")), nil
	}
	return info, nil, nil
}

// keyTypes are the types of the key's columns.
func keyTypes(key []string, columns [][]string) []dialects.KeyType {
	out := make([]dialects.KeyType, len(key))
	for i, k := range key {
		for _, c := range columns {
			if fold(c[0], k) {
				out[i] = keyType(strings.ToLower(c[1]))
			}
		}
	}
	return out
}

// keyType tells which arguments a column of that type may be compared with, so
// that one row is meant. A number and a text, and a floating point number and
// any other, compare as floating point, where several keys are equal
// (https://dev.mysql.com/doc/refman/8.0/en/type-conversion.html,
// https://mariadb.com/kb/en/type-conversion/).
func keyType(dataType string) dialects.KeyType {
	switch dataType {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "bit",
		"enum": // by its number; two labels may be one text
		return dialects.IntegerKey
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext",
		"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob",
		"uuid", "inet4", "inet6",
		"date", "datetime": // a text is converted to the column's type
		return dialects.TextKey
	}
	// Of a timestamp two hours are one text when clocks go back, of a set two
	// values may be, and of YEAR(2) two centuries are one number. The rest
	// makes no good key.
	return dialects.NoKey
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

// indexColumns reads the rows of STATISTICS. That of an expression has no
// column, and that of a column's beginning has a length.
func indexColumns(rows [][]string) []dialects.IndexColumn {
	out := make([]dialects.IndexColumn, len(rows))
	for i, r := range rows {
		index, column, part, nonUnique := r[0], r[1], r[2], r[3]
		out[i] = dialects.IndexColumn{Index: index, Column: column, Counts: nonUnique == "0" && part == ""}
	}
	return out
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
	return "CREATE TABLE " + d.table + " (" + key + "…, " + d.column() + ", PRIMARY KEY (" + d.KeyList(quote) + "))"
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
