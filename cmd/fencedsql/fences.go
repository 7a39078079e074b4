package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

// fenceColumn is a column that stores fences.
type fenceColumn struct {
	table  dialects.Name
	column string
}

func (c fenceColumn) String() string { return c.table.String() + "." + c.column }

// parseColumns reads a list such as chats.summary_fence,public.jobs.fence. Names are as they stand in the database, and
// as fencedsql.RegisterTable takes them: a part that holds a dot or a comma goes in double quotes.
func parseColumns(list string) (columns []fenceColumn, err error) {
	for _, text := range splitQuoted(list, ',') {
		text = strings.TrimSpace(text)
		parts := splitQuoted(text, '.')
		last := len(parts) - 1
		if last < 1 {
			return nil, fmt.Errorf("%q names no table and column: want table.column or schema.table.column", text)
		}
		table, err := dialects.ParseName(strings.Join(parts[:last], "."))
		if err != nil {
			return nil, err
		}
		column, err := dialects.ParseName(parts[last])
		if err != nil {
			return nil, fmt.Errorf("column of %w", err)
		}
		columns = append(columns, fenceColumn{table, column.Table})
	}
	return columns, nil
}

// splitQuoted splits a text at a separator outside double quotes.
func splitQuoted(text string, separator byte) (parts []string) {
	quoted, start := false, 0
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == separator && !quoted:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

// fenceQueries are an engine's words for what a column stores. In them {c} stands for the column and {t} for the table,
// and other words for what words says. Each query gives the number of rows, of those that are not NULL, of those that are
// fences, and the largest integer and text among these.
//
// A text is a fence if it has 40 digits, so that the largest text is the largest number; or if it is empty, which is zero
// to lease.Text. Texts are compared byte by byte, whatever the column's collation. The column is always qualified: SQLite
// takes a quoted name that is no column for a string.
type fenceQueries struct {
	before        string   // runs ahead, in the transaction
	integer, text string   // by the type of the column; text alone where it is the values that have types
	words         []string // each word and what it stands for, which may have later words in it
}

var (
	sqliteFences = fenceQueries{
		text: `SELECT count(*), count({c}), count(CASE WHEN {int} OR {fence} THEN 1 END),
	max(CASE WHEN {int} THEN {c} END), max(CASE WHEN {fence} THEN {c} END COLLATE BINARY) FROM {t}`,
		words: []string{
			"{int}", "(typeof({c}) = 'integer' AND {c} >= 0)",
			// The length of a text ends at a NUL.
			"{fence}", `(typeof({c}) = 'text' AND ({bytes} = 0 OR
	length({c}) = 40 AND {bytes} = 40 AND {c} NOT GLOB '*[^0123456789]*'))`,
			"{bytes}", "length(CAST({c} AS BLOB))",
		},
	}
	postgresFences = fenceQueries{
		// A policy that hides rows is an error then.
		before:  "SET LOCAL row_security = off",
		integer: "SELECT count(*), count({c}), count(CASE WHEN {c} >= 0 THEN 1 END), max({c})::text, NULL FROM {t}",
		text: `SELECT count(*), count({c}), count(CASE WHEN {fence} THEN 1 END), NULL,
	max(CASE WHEN {fence} THEN {value} END) FROM {t}`,
		words: []string{
			"{fence}", "({value} = '' OR {value} ~ '^[0123456789]{40}$')",
			"{value}", `{c}::text COLLATE "C"`,
		},
	}
	mysqlFences = fenceQueries{
		integer: "SELECT count(*), count({c}), count(CASE WHEN {c} >= 0 THEN 1 END), max({c}), NULL FROM {t}",
		text: `SELECT count(*), count({c}), count(CASE WHEN {fence} THEN 1 END), NULL,
	max(CASE WHEN {fence} THEN CAST({value} AS BINARY) END) FROM {t}`,
		words: []string{
			// $ matches before a newline at the end too.
			"{fence}", "(CHAR_LENGTH({value}) = 0 OR CHAR_LENGTH({value}) = 40 AND {value} REGEXP '^[0123456789]{40}$')",
			"{value}", "CONVERT({c} USING utf8mb4)",
		},
	}
)

// found is what a column stores.
type found struct {
	rows    int64
	largest lease.Fence
}

// readFences reads what the columns store. Its errors name tables and columns, and no value; a value that is no fence
// is one.
func (e *engine) readFences(ctx context.Context, db *sql.DB, columns []fenceColumn) (all []found, err error) {
	var errs []error
	for _, c := range columns {
		f, err := e.readColumn(ctx, db, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("table %s, column %s: %w", c.table, c.column, err))
		}
		all = append(all, f)
	}
	return all, errors.Join(errs...)
}

func (e *engine) readColumn(ctx context.Context, db *sql.DB, c fenceColumn) (f found, err error) {
	d, err := dialects.Get(e.name)
	if err != nil {
		return f, err
	}
	table := d.Quote(c.table.Table)
	if c.table.Schema != "" {
		table = d.Quote(c.table.Schema) + "." + table
	}
	table += " AS t"
	column := "t." + d.Quote(c.column)

	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return f, err
	}
	defer tx.Rollback()
	if e.fences.before != "" {
		if _, err := tx.ExecContext(ctx, e.fences.before); err != nil {
			return f, err
		}
	}
	text := e.fences.text
	if e.fences.integer != "" {
		integer, err := isInteger(ctx, tx, "SELECT "+column+" FROM "+table+" WHERE 1 = 0")
		if err != nil {
			return f, err
		}
		if integer {
			text = e.fences.integer
		}
	}
	for i := 0; i < len(e.fences.words); i += 2 {
		text = strings.ReplaceAll(text, e.fences.words[i], e.fences.words[i+1])
	}
	text = strings.NewReplacer("{c}", column, "{t}", table).Replace(text) // at once: a name may look like a word

	var present, good int64
	var number, digits sql.NullString
	if err := tx.QueryRowContext(ctx, text).Scan(&f.rows, &present, &good, &number, &digits); err != nil {
		return f, err
	}
	var problems []string
	if n := f.rows - present; n > 0 {
		problems = append(problems, fmt.Sprintf("%d of %d rows hold NULL", n, f.rows))
	}
	if n := present - good; n > 0 {
		problems = append(problems, fmt.Sprintf("%d of %d rows hold what is no fence: neither 40 digits nor an integer that is not negative", n, f.rows))
	}
	if problems != nil {
		return f, errors.New(strings.Join(problems, ", and "))
	}
	for _, largest := range []sql.NullString{number, digits} {
		if largest.String == "" {
			continue
		}
		fence, err := lease.ParseFence(largest.String)
		if err != nil { // which would show the value
			return f, errors.New("a row holds a number above 2^128-1, which is no fence")
		}
		if f.largest.Less(fence) {
			f.largest = fence
		}
	}
	return f, nil
}

// isInteger tells whether the one column of a query is of an integer type: INT8, BIGINT, UNSIGNED INT, ….
func isInteger(ctx context.Context, tx *sql.Tx, query string) (bool, error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return false, err
	}
	name := strings.TrimRight(types[0].DatabaseTypeName(), "0123456789")
	return strings.HasSuffix(name, "INT"), rows.Err()
}
