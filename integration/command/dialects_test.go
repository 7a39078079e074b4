package command

import (
	"regexp"
	"strings"

	"github.com/fencedsql/fencedsql/lease"
)

// A dialect is what the tests say in an engine's own words.
type dialect struct {
	name  string
	quote string
	// user and port give a DSN with another user and password, and with another port.
	user func(dsn, user string) string
	port func(dsn, port string) string
	// readOnly is a parameter under which nothing can be created, and cannotCreate what the server says then.
	readOnly, cannotCreate string
	// fences are columns, of any type that may hold fences, with some values.
	fences []column
	// bad are columns with values that are no fences.
	bad     []column
	first   string // parameter's marker
	cascade string // after DROP SCHEMA
}

// A column is one of a table of its own, whose name is the column's with a t before it.
type column struct {
	name   string // not quoted
	kind   string // type and constraints
	values []string
	// What is found: of fences the largest, of bad the error.
	largest lease.Fence
	want    string
}

// far is a fence that no clock gives.
var far = lease.Fence{Epoch: 1 << 50, Count: 1 << 62}

func text(f lease.Fence) string   { return "'" + f.Text() + "'" }
func sevens(n int) string         { return strings.Repeat("7", n) }
func small(count uint64) string   { return text(lease.Fence{Count: count}) }
func count(n uint64) lease.Fence  { return lease.Fence{Count: n} }
func epoch(n uint64) lease.Fence  { return lease.Fence{Epoch: n} }
func noFence(n, of string) string { return n + " of " + of + " rows hold what is no fence" }

var postgres = dialect{
	name: "postgres", quote: `"`, first: "$1", cascade: " CASCADE",
	user: func(dsn, user string) string {
		return regexp.MustCompile(`//[^@]*@`).ReplaceAllLiteralString(dsn, "//"+user+"@")
	},
	port: func(dsn, port string) string {
		return regexp.MustCompile(`:\d+/`).ReplaceAllLiteralString(dsn, ":"+port+"/")
	},
	readOnly: "default_transaction_read_only=on", cannotCreate: "cannot execute CREATE TABLE in a read-only transaction",
	fences: []column{
		{name: "plain", kind: "text NOT NULL", values: []string{small(9), small(10), "''"}, largest: count(10)},
		{name: "limited", kind: "varchar(40) NOT NULL", values: []string{text(epoch(2)), text(epoch(3))}, largest: epoch(3)},
		{name: "fixed", kind: "char(40) NOT NULL", values: []string{text(epoch(4))}, largest: epoch(4)},
		{name: "padded", kind: "char(60) NOT NULL", values: []string{text(epoch(5))}, largest: epoch(5)},
		{name: "Sel.ect, \"1", kind: "text NOT NULL", values: []string{small(11)}, largest: count(11)},
		{name: "select", kind: "text NOT NULL", values: []string{small(12)}, largest: count(12)},
		{name: "big", kind: "bigint NOT NULL", values: []string{"9", "10", "0"}, largest: count(10)},
		{name: "short", kind: "smallint NOT NULL", values: []string{"13"}, largest: count(13)},
		{name: "none", kind: "text NOT NULL"},
		{name: "nobig", kind: "bigint NOT NULL"},
		{name: "zero", kind: "text NOT NULL", values: []string{small(0)}},
		{name: "far", kind: "text NOT NULL", values: []string{text(far), small(1)}, largest: far},
	},
	bad: append(badEverywhere("text", "chr(10)"),
		column{name: "wide", kind: "text NOT NULL", values: []string{"'" + strings.Repeat("７", 40) + "'"}, want: noFence("1", "1")},
		column{name: "bytes", kind: "bytea NOT NULL", values: []string{"'" + sevens(40) + "'"}, want: noFence("1", "1")},
		column{name: "num", kind: "numeric NOT NULL", values: []string{"0" + sevens(38)}, want: noFence("1", "1")},
		column{name: "dbl", kind: "double precision NOT NULL", values: []string{"777"}, want: noFence("1", "1")},
	),
}

var mysql = dialect{
	name: "mysql", quote: "`", first: "?",
	user: func(dsn, user string) string {
		return regexp.MustCompile(`^[^@]*@`).ReplaceAllLiteralString(dsn, user+"@")
	},
	port: func(dsn, port string) string {
		return regexp.MustCompile(`:\d+\)`).ReplaceAllLiteralString(dsn, ":"+port+")")
	},
	readOnly: "tx_read_only=1", cannotCreate: "Error 1792",
	fences: []column{
		{name: "plain", kind: "TEXT NOT NULL", values: []string{small(9), small(10), "''"}, largest: count(10)},
		{name: "limited", kind: "VARCHAR(60) CHARACTER SET ucs2 NOT NULL", values: []string{text(epoch(2)), text(epoch(3))}, largest: epoch(3)},
		{name: "fixed", kind: "CHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL", values: []string{text(epoch(4))}, largest: epoch(4)},
		{name: "padded", kind: "CHAR(60) CHARACTER SET latin1 NOT NULL", values: []string{text(epoch(5)), "''"}, largest: epoch(5)},
		{name: "bytes", kind: "VARBINARY(40) NOT NULL", values: []string{text(epoch(6)), text(epoch(5))}, largest: epoch(6)},
		{name: "fixedbytes", kind: "BINARY(40) NOT NULL", values: []string{text(epoch(7))}, largest: epoch(7)},
		{name: "blob", kind: "BLOB NOT NULL", values: []string{text(epoch(8))}, largest: epoch(8)},
		{name: "Sel.ect, `1", kind: "TEXT NOT NULL", values: []string{small(11)}, largest: count(11)},
		{name: "select", kind: "TEXT NOT NULL", values: []string{small(12)}, largest: count(12)},
		{name: "big", kind: "BIGINT NOT NULL", values: []string{"9", "10", "0"}, largest: count(10)},
		{name: "unsigned", kind: "BIGINT UNSIGNED NOT NULL", values: []string{"18446744073709551615"}, largest: count(1<<64 - 1)},
		{name: "short", kind: "SMALLINT UNSIGNED NOT NULL", values: []string{"13"}, largest: count(13)},
		{name: "none", kind: "TEXT NOT NULL"},
		{name: "nobig", kind: "BIGINT NOT NULL"},
		{name: "zero", kind: "TEXT NOT NULL", values: []string{small(0)}},
		{name: "far", kind: "TEXT NOT NULL", values: []string{text(far), small(1)}, largest: far},
	},
	bad: append(badEverywhere("VARCHAR(100)", "CHAR(10)"),
		column{name: "wide", kind: "VARCHAR(60) CHARACTER SET utf8mb4 NOT NULL", values: []string{"CONVERT(X'" + strings.Repeat("EFBC97", 40) + "' USING utf8mb4)"}, want: noFence("1", "1")},
		column{name: "nul", kind: "VARBINARY(60) NOT NULL", values: []string{"CONCAT('" + sevens(39) + "', X'00')", "CONCAT('" + sevens(40) + "', X'00')", "X'00'", "X'FF'"}, want: noFence("4", "4")},
		column{name: "filled", kind: "BINARY(60) NOT NULL", values: []string{"'" + sevens(40) + "'"}, want: noFence("1", "1")},
		column{name: "num", kind: "DECIMAL(40) NOT NULL", values: []string{sevens(39)}, want: noFence("1", "1")},
		column{name: "dbl", kind: "DOUBLE NOT NULL", values: []string{"777"}, want: noFence("1", "1")},
	),
}

// badEverywhere are the columns that are bad on every engine; newline is an expression.
func badEverywhere(text, newline string) []column {
	ends := func(n int) string { return "CONCAT('" + sevens(n) + "', " + newline + ")" }
	return []column{
		{name: "nulls", kind: text, values: []string{small(1), "NULL", "NULL"}, want: "2 of 3 rows hold NULL"},
		{name: "both", kind: text, values: []string{small(1), "NULL", "'777'"}, want: "1 of 3 rows hold NULL, and " + noFence("1", "3")},
		{name: "nullint", kind: "BIGINT", values: []string{"7", "NULL"}, want: "1 of 2 rows hold NULL"},
		{name: "digits39", kind: text + " NOT NULL", values: []string{small(1), "'" + sevens(39) + "'"}, want: noFence("1", "2")},
		{name: "digits41", kind: text + " NOT NULL", values: []string{"'" + sevens(41) + "'"}, want: noFence("1", "1")},
		{name: "letter", kind: text + " NOT NULL", values: []string{"'" + sevens(39) + "a'"}, want: noFence("1", "1")},
		{name: "blank", kind: text + " NOT NULL", values: []string{"'" + sevens(39) + " '", "' '"}, want: noFence("2", "2")},
		{name: "newline", kind: text + " NOT NULL", values: []string{ends(39), ends(40), ends(0)}, want: noFence("3", "3")},
		{name: "sign", kind: text + " NOT NULL", values: []string{"'+" + sevens(39) + "'"}, want: noFence("1", "1")},
		{name: "negative", kind: "BIGINT NOT NULL", values: []string{"-777", "5"}, want: noFence("1", "2")},
		{name: "above", kind: text + " NOT NULL", values: []string{"'0" + sevens(39) + "'"}, want: "a row holds a number above 2^128-1"},
	}
}
