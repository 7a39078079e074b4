package postgres

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

// All columns of these queries are text, which every driver gives back alike.
// The rows of pg_collation and pg_database go through JSON because their
// columns differ from version to version.
const (
	columnsQuery = `SELECT c.relkind::text,
	EXISTS (SELECT FROM pg_catalog.pg_inherits AS h WHERE h.inhparent = c.oid)::text,
	coalesce(a.attname::text, ''), a.attnotnull::text, a.attgenerated::text, a.attidentity::text,
	a.atttypid::bigint::text, a.atttypmod::text, pg_catalog.format_type(a.atttypid, a.atttypmod),
	CASE WHEN a.attname = $2::text THEN pg_catalog.to_jsonb(l)::text END,
	CASE WHEN a.attname = $2::text THEN pg_catalog.to_jsonb(d)::text END
FROM pg_catalog.pg_class AS c
	LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	LEFT JOIN pg_catalog.pg_collation AS l ON l.oid = a.attcollation
	LEFT JOIN pg_catalog.pg_database AS d ON d.datname = pg_catalog.current_database() AND l.collprovider = 'd'
WHERE c.oid = pg_catalog.to_regclass($1::text)
ORDER BY a.attnum`

	// An index counts that holds every row of the table at every moment, and
	// compares as the columns themselves do.
	indexesQuery = `SELECT i.indexrelid::bigint::text, coalesce(a.attname::text, ''),
	coalesce(i.indcollation[k.n - 1] = a.attcollation AND o.opcdefault AND NOT EXISTS (SELECT
		FROM pg_catalog.pg_opclass AS own JOIN pg_catalog.pg_type AS t ON own.opcintype IN (t.oid, t.typbasetype)
		WHERE t.oid = a.atttypid AND own.opcdefault AND own.opcmethod = o.opcmethod AND own.oid <> o.oid), false)::text
FROM pg_catalog.pg_index AS i
	CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, n)
	LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
	LEFT JOIN pg_catalog.pg_opclass AS o ON o.oid = i.indclass[k.n - 1]
WHERE i.indrelid = pg_catalog.to_regclass($1::text) AND i.indisunique AND i.indimmediate AND i.indisvalid
	AND i.indisready AND NOT i.indisexclusion AND i.indpred IS NULL AND i.indexprs IS NULL AND k.n <= i.indnkeyatts
ORDER BY i.indexrelid, k.n`
)

// Check reads the table from the system catalogs
// (https://www.postgresql.org/docs/current/catalogs.html).
func (dialect) Check(ctx context.Context, q dialects.Querier, t dialects.CheckedTable) (*dialects.TableInfo, *dialects.Problem, error) {
	d := ddl{CheckedTable: t, table: t.Name.Quoted(quote), fence: quote(t.Fence)}

	rows, err := q.Query(ctx, columnsQuery, d.table, t.Fence)
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 0 {
		return nil, dialects.NewProblem(d.create(), "there is no such table"), nil
	}
	if kind := dialects.Text(rows[0][0]); kind != "r" && kind != "p" {
		name, ok := map[string]string{"v": "a view", "m": "a materialized view", "f": "a foreign table"}[kind]
		if !ok {
			name = "no table"
		}
		return nil, dialects.NewProblem("", "it is %s: register the table that is written in the end", name), nil
	}
	info := &dialects.TableInfo{}
	var fence []driver.Value
	for _, row := range rows {
		name := dialects.Text(row[2])
		if name == "" {
			continue // a table without columns
		}
		info.Columns = append(info.Columns, name)
		if name == t.Fence {
			fence = row
		}
	}
	if fence == nil {
		if lower, _ := foldASCII(t.Fence); slices.Contains(info.Columns, lower) {
			return nil, dialects.NewProblem("", "it has no column %s: register the column as %q", d.fence, lower), nil
		}
		return nil, dialects.NewProblem(d.add(), "it has no column %s", d.fence), nil
	}
	switch {
	case dialects.Text(fence[4]) != "":
		return nil, dialects.NewProblem(d.again(), "column %s is generated", d.fence), nil
	case dialects.Text(fence[5]) != "":
		return nil, dialects.NewProblem(d.alter("DROP IDENTITY"), "column %s is an identity column", d.fence), nil
	}
	if reason := unfit(dialects.Text(fence[6]), dialects.Text(fence[7]), t.Encoding); reason != "" {
		return nil, dialects.NewProblem(d.retype(), "column %s is of type %s; %s", d.fence, dialects.Text(fence[8]), reason), nil
	}
	if dialects.Text(fence[3]) != "true" {
		return nil, dialects.NewProblem(d.fill(), "column %s may be NULL, and NULL is below no fence", d.fence), nil
	}
	if reason := disorder(dialects.Text(fence[9]), dialects.Text(fence[10])); reason != "" {
		return nil, dialects.NewProblem(d.retype(), "column %s: %s", d.fence, reason), nil
	}
	if len(t.Key) == 0 {
		return info, nil, nil
	}

	for _, k := range t.Key {
		if slices.Contains(info.Columns, k) {
			continue
		}
		if lower, _ := foldASCII(k); slices.Contains(info.Columns, lower) {
			return nil, dialects.NewProblem("", "it has no key column %s: register the column as %q", quote(k), lower), nil
		}
		return nil, dialects.NewProblem("", "it has no key column %s", quote(k)), nil
	}
	if dialects.Text(rows[0][0]) == "r" && dialects.Text(rows[0][1]) == "true" {
		return nil, dialects.NewProblem("", "tables inherit from it, and no unique index of it reaches into them: leave Key out"), nil
	}
	indexes, err := q.Query(ctx, indexesQuery, d.table)
	if err != nil {
		return nil, nil, err
	}
	if !dialects.IsUnique(t.Key, indexColumns(indexes), func(a, b string) bool { return a == b }) {
		return nil, dialects.NewProblem(d.index(), "key (%s) is neither its primary key nor covered by a unique index that is not partial, not deferrable, and over whole columns: without one leave Key out",
			strings.Join(t.Key, ", ")), nil
	}
	return info, nil, nil
}

// The types that a fence column may have, by their fixed OIDs
// (src/include/catalog/pg_type.dat). A domain has an OID of its own.
const (
	oidInt8    = "20"
	oidText    = "25"
	oidBpchar  = "1042"
	oidVarchar = "1043"
)

// fenceLen is the length of a fence in the text encoding.
const fenceLen = 40

// unfit says why a type does not keep a fence as it is, or "".
func unfit(oid, typmod string, enc lease.Encoding) string {
	if enc == lease.Int64 {
		if oid != oidInt8 {
			return "fences in the int64 encoding need bigint"
		}
		return ""
	}
	n, err := strconv.Atoi(typmod)
	limited := err != nil || n >= 0
	n -= 4 // VARHDRSZ counts in
	switch oid {
	case oidText:
		return ""
	case oidVarchar:
		if limited && n < fenceLen {
			return "a fence takes 40 characters"
		}
		return ""
	case oidBpchar:
		switch {
		case limited && n < fenceLen:
			return "a fence takes 40 characters"
		case limited && n > fenceLen:
			return "it pads a fence with blanks"
		}
		return ""
	}
	return "fences in the text encoding need text, or varchar of at least 40 characters"
}

// disorder says why a collation may not order fences as numbers, or "". Those
// of the C library and the builtin ones keep the order of the digits. Those of
// ICU do unless rules or a reordering (https://www.unicode.org/reports/tr35/tr35-collation.html)
// say otherwise. The database's row is given for its default collation.
func disorder(collation, database string) string {
	if collation == "" {
		return "" // bigint has none
	}
	var c struct {
		Name          string `json:"collname"`
		Provider      string `json:"collprovider"`
		Deterministic bool   `json:"collisdeterministic"`
		Locale        string `json:"colllocale"` // since 17
		ICULocale     string `json:"colliculocale"`
		ICURules      string `json:"collicurules"` // since 16
	}
	if err := json.Unmarshal([]byte(collation), &c); err != nil {
		return "its collation cannot be read"
	}
	provider, locale, rules := c.Provider, c.Locale+c.ICULocale, c.ICURules
	if provider == "d" {
		var d struct {
			Provider  string `json:"datlocprovider"`
			Locale    string `json:"datlocale"` // since 17
			ICULocale string `json:"daticulocale"`
			ICURules  string `json:"daticurules"` // since 16
		}
		if err := json.Unmarshal([]byte(database), &d); err != nil {
			return "the database's collation cannot be read"
		}
		provider, locale, rules = d.Provider, d.Locale+d.ICULocale, d.ICURules
	}
	locale = strings.ToLower(locale)
	switch {
	case !c.Deterministic:
		return fmt.Sprintf("its collation %q is not deterministic", c.Name)
	case provider == "c" || provider == "b":
		return ""
	case provider != "i":
		return fmt.Sprintf("its collation %q has an unknown provider", c.Name)
	case rules != "" || strings.Contains(locale, "-kr-") || strings.Contains(locale, "colreorder"):
		return fmt.Sprintf("its collation %q may order digits otherwise than by their value", c.Name)
	}
	return ""
}

// indexColumns reads the rows of indexesQuery.
func indexColumns(rows [][]driver.Value) []dialects.IndexColumn {
	out := make([]dialects.IndexColumn, len(rows))
	for i, r := range rows {
		out[i] = dialects.IndexColumn{Index: dialects.Text(r[0]), Column: dialects.Text(r[1]), Counts: dialects.Text(r[2]) == "true"}
	}
	return out
}

// ddl writes the statements that make a table fit.
type ddl struct {
	dialects.CheckedTable
	table, fence string // as written in a text
}

// typ and zero are what a fence column should be, and what it begins with.
func (d ddl) typ() string {
	if d.Encoding == lease.Int64 {
		return "bigint"
	}
	return `text COLLATE "C"`
}

func (d ddl) zero() string {
	if d.Encoding == lease.Int64 {
		return "0"
	}
	return "'" + lease.Fence{}.Text() + "'"
}

func (d ddl) column() string { return d.fence + " " + d.typ() + " NOT NULL DEFAULT " + d.zero() }

func (d ddl) create() string {
	key := "id bigint PRIMARY KEY"
	if len(d.Key) > 0 {
		key = ""
		for _, k := range d.Key {
			key += quote(k) + " …, "
		}
		key += "PRIMARY KEY (" + d.KeyList(quote) + ")"
	}
	return "CREATE TABLE " + d.table + " (" + key + ", …, " + d.column() + ")"
}

func (d ddl) add() string { return "ALTER TABLE " + d.table + " ADD COLUMN " + d.column() }

func (d ddl) again() string {
	return "ALTER TABLE " + d.table + " DROP COLUMN " + d.fence + ";\n" + d.add()
}

func (d ddl) alter(actions ...string) string {
	return "ALTER TABLE " + d.table + " ALTER COLUMN " + d.fence + " " +
		strings.Join(actions, ", ALTER COLUMN "+d.fence+" ")
}

func (d ddl) fill() string {
	return "UPDATE " + d.table + " SET " + d.fence + " = " + d.zero() + " WHERE " + d.fence + " IS NULL;\n" +
		d.alter("SET DEFAULT "+d.zero(), "SET NOT NULL")
}

func (d ddl) retype() string {
	value := "lpad(" + d.fence + "::text, 40, '0')"
	if d.Encoding == lease.Int64 {
		value = d.fence + "::bigint"
	}
	return d.alter("DROP DEFAULT", "TYPE "+d.typ()+" USING coalesce("+value+", "+d.zero()+")",
		"SET DEFAULT "+d.zero(), "SET NOT NULL")
}

func (d ddl) index() string {
	return "CREATE UNIQUE INDEX ON " + d.table + " (" + d.KeyList(quote) + ")"
}
