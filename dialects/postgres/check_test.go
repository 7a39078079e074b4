package postgres

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

// The rows that PostgreSQL 15 and 18 give for collations, and for databases by
// their default one.
const (
	defaultCollation = `{"oid": 100, "collname": "default", "collprovider": "d", "collisdeterministic": true}`
	cCollation       = `{"oid": 950, "collname": "C", "collcollate": "C", "collprovider": "c", "collisdeterministic": true}`
	icu15            = `{"collname": %q, "collprovider": "i", "colliculocale": %q, "collisdeterministic": %v}`
	icu18            = `{"collname": %q, "collprovider": "i", "colllocale": %q, "collisdeterministic": %v, "collicurules": %q}`
	libcDatabase     = `{"datname": "a", "datlocprovider": "c", "datcollate": "de_DE.utf8", "daticulocale": null}`
	icuDatabase      = `{"datname": "a", "datlocprovider": "i", "datlocale": %q, "daticurules": %q}`
)

func TestDisorder(t *testing.T) {
	for name, c := range map[string]struct {
		collation, database, want string
	}{
		"bigint":                {"", "", ""},
		"default, libc":         {defaultCollation, libcDatabase, ""},
		"default, builtin":      {defaultCollation, `{"datlocprovider": "b", "datlocale": "C.UTF-8"}`, ""},
		"default, ICU":          {defaultCollation, fmt.Sprintf(icuDatabase, "und", ""), ""},
		"default, ICU reorders": {defaultCollation, fmt.Sprintf(icuDatabase, "en-u-kr-digit", ""), "order digits"},
		"default, ICU rules":    {defaultCollation, fmt.Sprintf(icuDatabase, "en", "&9 < 0"), "order digits"},
		"default, unknown":      {defaultCollation, `{}`, "unknown provider"},
		"default, untold":       {defaultCollation, "", "cannot be read"},
		"C":                     {cCollation, "", ""},
		"builtin":               {`{"collname": "ucs_basic", "collprovider": "b", "collisdeterministic": true}`, "", ""},
		"ICU":                   {fmt.Sprintf(icu15, "de-x-icu", "de", true), "", ""},
		"ICU by value":          {fmt.Sprintf(icu18, "natural", "en-u-kn", true, ""), "", ""},
		"ICU, equal cases":      {fmt.Sprintf(icu15, "ci", "und-u-ks-level2", false), "", "not deterministic"},
		"ICU reorders":          {fmt.Sprintf(icu15, "r", "en-U-KR-latn-digit", true), "", "order digits"},
		"ICU reorders, old":     {fmt.Sprintf(icu15, "r", "en@colReorder=latn-digit", true), "", "order digits"},
		"ICU rules":             {fmt.Sprintf(icu18, "r", "und", true, "&9 < 0"), "", "order digits"},
		"of another provider":   {`{"collprovider": "z", "collisdeterministic": true}`, "", "unknown provider"},
		"unreadable":            {"x", "", "cannot be read"},
	} {
		got := disorder(c.collation, c.database)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestUnfit(t *testing.T) {
	for _, c := range []struct {
		oid, typmod string
		enc         lease.Encoding
		fits        bool
	}{
		{oidText, "-1", lease.Text, true},
		{oidVarchar, "-1", lease.Text, true},
		{oidVarchar, "44", lease.Text, true},
		{oidVarchar, "43", lease.Text, false},
		{oidVarchar, "259", lease.Text, true},
		{oidBpchar, "44", lease.Text, true},
		{oidBpchar, "24", lease.Text, false},
		{oidBpchar, "45", lease.Text, false},
		{oidBpchar, "-1", lease.Text, true},
		{oidInt8, "-1", lease.Text, false},
		{"1700", "-1", lease.Text, false},
		{"16500", "-1", lease.Text, false}, // a domain, or citext
		{"19", "-1", lease.Text, false},
		{oidInt8, "-1", lease.Int64, true},
		{"23", "-1", lease.Int64, false},
		{oidText, "-1", lease.Int64, false},
	} {
		if reason := unfit(c.oid, c.typmod, c.enc); c.fits != (reason == "") {
			t.Errorf("type %s(%s) for %v: %q", c.oid, c.typmod, c.enc, reason)
		}
	}
}

// column is a row of columnsQuery: a text column named fence in the C
// collation, or a plain one of another name.
func column(name string, change ...func(row []driver.Value)) []driver.Value {
	row := []driver.Value{"r", "false", name, "true", "", "", oidText, "-1", "text", cCollation, nil}
	for _, f := range change {
		f(row)
	}
	return row
}

func TestCheck(t *testing.T) {
	set := func(i int, v driver.Value) func([]driver.Value) {
		return func(row []driver.Value) { row[i] = v }
	}
	type table = [][]driver.Value
	index := func(rows ...string) table {
		var out table
		for _, r := range rows {
			f := strings.Fields(r)
			out = append(out, []driver.Value{f[0], []byte(f[1]), f[2]})
		}
		return out
	}
	pk := index("1 id true")
	for name, c := range map[string]struct {
		columns, indexes table
		key, enc         string
		reason, ddl      string
	}{
		"fits":           {table{column("id"), column("fence")}, pk, "id", "", "", ""},
		"without a key":  {table{column("id"), column("fence")}, nil, "", "", "", ""},
		"partitioned":    {table{column("id", set(0, "p"), set(1, "true")), column("fence", set(0, "p"))}, pk, "id", "", "", ""},
		"part of a key":  {table{column("id"), column("k"), column("fence")}, pk, "k id", "", "", ""},
		"two columns":    {table{column("id"), column("k"), column("fence")}, index("1 id true", "1 k true"), "k id", "", "", ""},
		"second index":   {table{column("id"), column("k"), column("fence")}, index("1 k true", "2 id true"), "id", "", "", ""},
		"wider index":    {table{column("id"), column("k"), column("fence")}, index("1 id true", "1 k true"), "id", "", "key (id) is neither", "CREATE UNIQUE INDEX ON app.chats (id)"},
		"other compare":  {table{column("id"), column("fence")}, index("1 id false"), "id", "", "is neither", ""},
		"no index":       {table{column("id"), column("fence")}, nil, "id", "", "is neither", ""},
		"inherited":      {table{column("id", set(1, "true")), column("fence")}, pk, "id", "", "inherit", ""},
		"inherited, all": {table{column("id", set(1, "true")), column("fence")}, nil, "", "", "", ""},
		"no table":       {nil, nil, "id", "", "no such table", "CREATE TABLE app.chats (id …, PRIMARY KEY (id), …, fence text"},
		"a view":         {table{column("fence", set(0, "v"))}, nil, "", "", "a view", ""},
		"a sequence":     {table{column("fence", set(0, "S"))}, nil, "", "", "no table", ""},
		"empty":          {table{column("")}, nil, "", "", "no column fence", "ADD COLUMN fence text COLLATE \"C\" NOT NULL DEFAULT '0000000000000000000000000000000000000000'"},
		"no column":      {table{column("id")}, nil, "", "int64", "no column fence", "ADD COLUMN fence bigint NOT NULL DEFAULT 0"},
		"no key column":  {table{column("fence")}, nil, "id", "", "no key column id", ""},
		"folded key":     {table{column("id"), column("fence")}, pk, "ID", "", `register the column as "id"`, ""},
		"nullable":       {table{column("fence", set(3, "false"))}, nil, "", "", "may be NULL", "SET NOT NULL"},
		"generated":      {table{column("fence", set(4, "s"))}, nil, "", "", "is generated", "DROP COLUMN fence;\nALTER TABLE app.chats ADD COLUMN"},
		"identity":       {table{column("fence", set(5, "a"), set(6, oidInt8))}, nil, "", "int64", "identity", "DROP IDENTITY"},
		"short":          {table{column("fence", set(6, oidVarchar), set(7, "24"), set(8, "character varying(20)"))}, nil, "", "", "is of type character varying(20)", "TYPE text COLLATE \"C\" USING"},
		"a number":       {table{column("fence", set(6, "23"), set(8, "integer"))}, nil, "", "int64", "need bigint", "TYPE bigint USING coalesce(fence::bigint, 0)"},
		"collation":      {table{column("fence", set(9, fmt.Sprintf(icu15, "ci", "und", false)))}, nil, "", "", `collation "ci"`, "TYPE text COLLATE"},
	} {
		q := &answers{rows: [][][]driver.Value{c.columns, c.indexes}}
		checked := dialects.CheckedTable{
			Name: dialects.Name{Schema: "app", Table: "chats"}, Fence: "fence", Key: strings.Fields(c.key),
		}
		if c.enc != "" {
			checked.Encoding = lease.Int64
		}
		info, problem, err := dialect{}.Check(t.Context(), q, checked)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case c.reason == "" && (problem != nil || len(info.Columns) != len(c.columns)):
			t.Errorf("%s: %v, %v", name, info, problem)
		case c.reason != "" && (problem == nil || !strings.Contains(problem.Reason, c.reason) || !strings.Contains(problem.DDL, c.ddl)):
			t.Errorf("%s: %+v", name, problem)
		}
		if q.args[0][0] != "app.chats" || q.args[0][1] != "fence" {
			t.Errorf("%s: asked for %v", name, q.args[0])
		}
	}

	checked := dialects.CheckedTable{Name: dialects.Name{Table: "Chats"}, Fence: "Fence", Key: []string{"id"}}
	q := &answers{rows: [][][]driver.Value{{column("id"), column("fence")}}}
	_, problem, _ := dialect{}.Check(t.Context(), q, checked)
	if problem == nil || problem.Reason != `it has no column "Fence": register the column as "fence"` || q.args[0][0] != `"Chats"` {
		t.Errorf("%+v, asked for %v", problem, q.args[0])
	}
	gone := errors.New("gone")
	for n := range 2 {
		q := &answers{rows: [][][]driver.Value{{column("id"), column("Fence")}}[:n], err: gone}
		if _, _, err := (dialect{}).Check(t.Context(), q, checked); !errors.Is(err, gone) {
			t.Errorf("query %d fails, and Check gives %v", n+1, err)
		}
	}
}
