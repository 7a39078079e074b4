package dialects

import (
	"database/sql/driver"
	"fmt"
	"strings"
)

// What the dialects' Check have in common.

// Text reads a value of a system table, which drivers give back as string,
// []byte or a number; NULL is "".
func Text(v driver.Value) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	}
	return fmt.Sprint(v)
}

// NewProblem makes a Problem with a formatted Reason.
func NewProblem(ddl, reason string, args ...any) *Problem {
	return &Problem{Reason: fmt.Sprintf(reason, args...), DDL: ddl}
}

// KeyList is the key's columns as a list in a text, each by quote.
func (t CheckedTable) KeyList(quote func(column string) string) string {
	quoted := make([]string, len(t.Key))
	for i, k := range t.Key {
		quoted[i] = quote(k)
	}
	return strings.Join(quoted, ", ")
}

// IndexColumn is a column of an index. Counts is false when two rows of the
// table that are equal in the column may both be in the index: it is not
// unique, or partial, or over a part of the column or an expression, or
// compares otherwise than the column.
type IndexColumn struct {
	Index, Column string
	Counts        bool
}

// IsUnique reports whether at most one row has a given value in every column
// of the key: all columns of some index count and are in it, by same. The
// indexes may come in any order.
func IsUnique(key []string, indexes []IndexColumn, same func(a, b string) bool) bool {
	fits := map[string]bool{}
	for _, c := range indexes {
		in := false
		for _, k := range key {
			in = in || same(k, c.Column)
		}
		before, seen := fits[c.Index]
		fits[c.Index] = (before || !seen) && in && c.Counts
	}
	for _, ok := range fits {
		if ok {
			return true
		}
	}
	return false
}
