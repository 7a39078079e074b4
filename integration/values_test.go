package integration

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/lib/pq"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/integration/witness"
)

// valueColumns are the columns of vals and barevals, and their types. A
// dialect that is not named has no such column.
var valueColumns = []struct {
	name  string
	types map[string]string
}{
	{"t", map[string]string{"postgres": "text", "mysql": "TEXT", "sqlite": "TEXT"}},
	{"i", map[string]string{"postgres": "bigint", "mysql": "BIGINT", "sqlite": "INTEGER"}},
	{"u", map[string]string{"mysql": "BIGINT UNSIGNED"}},
	{"r", map[string]string{"postgres": "double precision", "mysql": "DOUBLE", "sqlite": "REAL"}},
	{"d", map[string]string{"postgres": "numeric", "mysql": "DECIMAL(40, 10)", "sqlite": "NUMERIC"}},
	{"o", map[string]string{"postgres": "boolean", "mysql": "BOOL", "sqlite": "BOOLEAN"}},
	{"b", map[string]string{"postgres": "bytea", "mysql": "BLOB", "sqlite": "BLOB"}},
	{"at", map[string]string{"postgres": "timestamptz", "mysql": "DATETIME(6)", "sqlite": "TIMESTAMP"}},
	{"js", map[string]string{"postgres": "json", "mysql": "JSON", "sqlite": "JSON"}},
	{"jb", map[string]string{"postgres": "jsonb"}},
	{"id16", map[string]string{"postgres": "uuid", "mysql": "BINARY(16)", "sqlite": "UUID"}},
	{"id36", map[string]string{"mysql": "UUID"}},
	{"texts", map[string]string{"postgres": "text[]"}},
	{"ints", map[string]string{"postgres": "integer[]"}},
}

// valueTables makes vals, which is fenced, and barevals, which is not.
func (d *dialectTexts) valueTables() []string {
	key := map[string]string{"postgres": "integer", "mysql": "INT", "sqlite": "INTEGER"}[d.dialect]
	body := " (id " + key + " PRIMARY KEY, n " + key
	for _, c := range valueColumns {
		if t, ok := c.types[d.dialect]; ok {
			body += ", " + c.name + " " + t
		}
	}
	return []string{
		"CREATE TABLE vals" + body + ", fence VARCHAR(40) NOT NULL DEFAULT '" + text(0) + "')",
		"CREATE TABLE barevals" + body + ")",
	}
}

func (e *engine) openValues(t testing.TB) *env {
	t.Helper()
	v := e.open(t, fencedsql.WithTables(append(tables, fencedsql.Table{Name: "vals", Key: []string{"id"}})...))
	v.do(e.valueTables()...)
	return v
}

// What programs pass, of types of their own, of database/sql and of drivers.
type (
	label  string
	number int64
	digest [16]byte
	doc    struct {
		A int      `json:"a"`
		B []string `json:"b"`
	}
)

var (
	aTime  = time.Date(2024, 2, 29, 12, 30, 15, 123456000, time.UTC)
	aUUID  = uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	aJSON  = `{"a": 1, "b": ["x", "??", "'"]}`
	values = []struct {
		columns string // by blanks; "" is all
		args    []any
	}{
		{"", []any{nil, "x", "1", []byte("x"), []byte(nil)}},
		{"js jb t b", []any{
			aJSON, []byte(aJSON), json.RawMessage(aJSON), json.RawMessage(nil), ptr(json.RawMessage(aJSON)), "{", `"a"`, "null",
			map[string]any{"a": 1, "b": []string{"x"}}, map[string]any(nil), doc{1, []string{"x"}}, &doc{2, nil}, []doc{{A: 1}}, []any{1, "x", nil}, (*doc)(nil),
		}},
		{"id16 id36 t b", []any{
			aUUID.String(), [16]byte(aUUID), aUUID[:], aUUID, &aUUID, (*uuid.UUID)(nil), uuid.NullUUID{UUID: aUUID, Valid: true}, uuid.NullUUID{},
			pgtype.UUID{Bytes: aUUID, Valid: true}, pgtype.UUID{}, digest(aUUID), "not a uuid", []byte(aUUID.String()),
		}},
		{"t i", []any{
			label("x"), number(7), valuer("x"), ptr("x"), ptr(label("x")), (*string)(nil), ptr(7), (*int)(nil), json.Number("12"), big.NewInt(12), time.Second,
			sql.NullString{String: "x", Valid: true}, sql.NullString{}, sql.NullInt64{Int64: 7, Valid: true}, sql.NullInt32{}, sql.Null[label]{V: "x", Valid: true}, sql.Null[int]{},
			pgtype.Text{String: "x", Valid: true}, pgtype.Text{}, pgtype.Int8{Int64: 7, Valid: true}, pgtype.Int8{}, struct{ A int }{1}, []string{"x"}, make(chan int), complex(1, 1),
			"no \x00 zero", "\xff",
		}},
		{"t b", []any{strings.Repeat("long ", 20000), []byte(strings.Repeat("long ", 20000))}}, // lib/pq waits for ever for an error that repeats it
		{"i u d t r", []any{
			uint64(math.MaxInt64), uint64(math.MaxInt64) + 1, uint64(math.MaxUint64), ptr(uint64(math.MaxUint64)), int64(math.MinInt64), int8(-8), uint16(16), uint(7), float32(1.5), 2.25,
			math.NaN(), math.Inf(1), math.MaxFloat64, "12345678901234567890.125", pgtype.Numeric{Int: big.NewInt(12345), Exp: -2, Valid: true}, pgtype.Numeric{}, pgtype.Numeric{NaN: true, Valid: true},
			sql.NullFloat64{Float64: 1.5, Valid: true}, sql.NullInt16{Int16: 3, Valid: true}, sql.NullByte{Byte: 4, Valid: true}, true,
		}},
		{"o", []any{true, false, ptr(true), sql.NullBool{Bool: true, Valid: true}, sql.NullBool{}, pgtype.Bool{Bool: true, Valid: true}, 1, "t"}},
		{"b", []any{[]byte{0, 1, 0xff, '\''}, []byte{}, sql.RawBytes("raw"), ptr([]byte("x")), bytesValuer{1, 2}, pgtype.PreallocBytes("x")}},
		{"at t", []any{
			aTime, aTime.In(time.FixedZone("", 5*3600+1800)), time.Time{}, &aTime, (*time.Time)(nil), sql.NullTime{Time: aTime, Valid: true}, sql.NullTime{}, sql.Null[time.Time]{V: aTime, Valid: true},
			pgtype.Timestamptz{Time: aTime, Valid: true}, pgtype.Timestamptz{}, pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}, pgtype.Date{Time: aTime, Valid: true},
			"2024-02-29 12:30:15", int64(1709209815),
		}},
		{"texts ints t", []any{
			[]string{"x", `"y,`, "NULL", ""}, []string{}, []string(nil), []*string{ptr("x"), nil}, []label{"x"}, []int32{1, -2}, []int64{3}, []int{4}, []int32(nil), [2]int32{5, 6}, ptr([]int32{7}),
			pgtype.FlatArray[string]{"x", "y"}, pgtype.FlatArray[int32]{8}, pgtype.Array[string]{Elements: []string{"x"}, Dims: []pgtype.ArrayDimension{{Length: 1, LowerBound: 1}}, Valid: true}, pgtype.Array[int32]{},
			pq.Array([]string{"x", "y"}), pq.StringArray{"x"}, pq.Int32Array{1}, "{1,2}", []byte("{3}"), [][]int32{{1}, {2}},
		}},
	}
)

type bytesValuer []byte

func (b bytesValuer) Value() (driver.Value, error) { return []byte(b), nil }

// valueWrites are the ways in which a statement may hold a value: %[1]s is the
// table and %[2]s the column.
var valueWrites = []valueWrite{
	{"pinned", executed, valuePinned, pinnedArgs, 1},
	{"pinned, prepared", prepared, valuePinned, pinnedArgs, 1},
	{"assertion", executed, all("UPDATE %[1]s SET %[2]s = ?, n = ? WHERE id < ?"), func(arg any) []any { return []any{arg, 2, 3} }, 1},
	{"insert", executed, all("INSERT INTO %[1]s (n, %[2]s, id) VALUES (?, ?, ?), (4, NULL, 4)"), func(arg any) []any { return []any{3, arg, 3} }, 2},
	{"upsert, prepared", prepared, map[string]string{
		"":      "INSERT INTO %[1]s (%[2]s, id) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET %[2]s = excluded.%[2]s, n = ?",
		"mysql": "INSERT INTO %[1]s (%[2]s, id) VALUES (?, ?) ON DUPLICATE KEY UPDATE %[2]s = VALUES(%[2]s), n = ?",
	}, func(arg any) []any { return []any{arg, 1, 5} }, 1},
}

type valueWrite struct {
	name  string
	road  valueRoad
	texts map[string]string
	args  func(arg any) []any
	rows  int // how many have the lease's fence afterwards
}

var valuePinned = all("UPDATE %[1]s SET n = ?, %[2]s = ? WHERE id = ?")

func pinnedArgs(arg any) []any { return []any{1, arg, 1} }

// TestValues: a value that the bare driver takes is taken through a fenced
// statement too and stored as bare, what it refuses is refused with the same
// words, and what is read is what is read bare; in fenced tables and in others.
func TestValues(t *testing.T) {
	for _, e := range valueEngines() {
		t.Run(e.name, func(t *testing.T) { testValues(e.openValues(t)) })
	}
}

// valueEngines are those that take values in ways of their own.
func valueEngines() []*engine {
	return named(engines(), "sqlite3", "modernc", "pgx-", "pq", "mariadb-interpolate=false-found=false", "mariadb-interpolate=true-found=false")
}

func testValues(v *env) {
	ctx := v.under(6)
	accepted, refused := 0, 0
	for _, group := range values {
		for _, c := range valueColumns {
			if _, ok := c.types[v.dialect]; !ok || group.columns != "" && !slices.Contains(strings.Fields(group.columns), c.name) {
				continue
			}
			for _, arg := range group.args {
				what := fmt.Sprintf("%.80s in %s", fmt.Sprintf("%T %+v", arg, arg), c.name)
				for _, w := range valueWrites {
					want := v.sameAsBare(ctx, what, w, c.name, w.args(arg))
					if want.err == "" {
						accepted++
					} else {
						refused++
					}
					if w.name == "pinned" { // one text is enough for what goes through as it is
						v.sameUnfenced(ctx, what, want, w, c.name, w.args(arg))
					}
				}
				v.readValue(ctx, what, c.name, arg)
			}
		}
	}
	if accepted < 300 || refused < 100 {
		v.Errorf("the bare driver took %d values and refused %d: too few to tell anything", accepted, refused)
	}
}

// sameAsBare writes to vals bare and then fenced, which must come to the same;
// it returns that.
func (v *env) sameAsBare(ctx context.Context, what string, w valueWrite, column string, args []any) outcome {
	v.Helper()
	want := v.writeValue(v.bare, ctx, w, "vals", column, args)
	if got := v.writeValue(v.db, ctx, w, "vals", column, args); got != want {
		v.Errorf("%s, %s: fenced\n\t%+v\nbare\n\t%+v", what, w.name, got, want)
	}
	fenced := w.rows
	if want.err != "" {
		fenced = 0
	}
	if n := v.count("SELECT count(*) FROM vals WHERE fence = '" + text(6) + "'"); n != fenced {
		v.Errorf("%s, %s: %d rows have the fence, want %d", what, w.name, n, fenced)
	}
	return want
}

// sameUnfenced writes to barevals through fencedsql.
func (v *env) sameUnfenced(ctx context.Context, what string, want outcome, w valueWrite, column string, args []any) {
	v.Helper()
	if got := v.writeValue(v.db, ctx, w, "barevals", column, args); got != want {
		v.Errorf("%s, %s: a table that is not fenced\n\t%+v\nbare\n\t%+v", what, w.name, got, want)
	}
}

// outcome is what a write came to, and the rows after it.
type outcome struct {
	rows int64
	err  string
	left string
}

// valueRoad is how a text reaches the database.
type valueRoad func(db *sql.DB, ctx context.Context, text string, args []any) (int64, error)

func executed(db *sql.DB, ctx context.Context, text string, args []any) (int64, error) {
	return affected(db.ExecContext(ctx, text, args...))
}

func prepared(db *sql.DB, ctx context.Context, text string, args []any) (int64, error) {
	st, err := db.PrepareContext(ctx, text)
	if err != nil {
		return 0, err
	}
	defer st.Close()
	return affected(st.ExecContext(ctx, args...))
}

var valueRoads = map[string]valueRoad{"Exec": executed, "prepared": prepared}

func (v *env) writeValue(db *sql.DB, ctx context.Context, w valueWrite, table, column string, args []any) (out outcome) {
	v.Helper()
	text, ok := w.texts[v.dialect]
	if !ok {
		text = w.texts[""]
	}
	v.do("DELETE FROM "+table, "INSERT INTO "+table+" (id, n) VALUES (1, 0)")
	n, err := w.road(db, ctx, v.mark(fmt.Sprintf(text, table, column)), args)
	out.rows, out.err = n, words(err)
	rs, err := v.bare.Query("SELECT id, n, " + column + " FROM " + table + " ORDER BY 1")
	if err != nil {
		v.Fatal(err)
	}
	out.left = witness.Render(v, rs)
	return out
}

// place is where lib/pq says that the text sent is wrong: a fenced one is longer.
var place = regexp.MustCompile(` at (column|position) [0-9:]+`)

func words(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(place.ReplaceAllString(err.Error(), ""), "barevals", "vals")
}

func (v *env) count(text string) (n int) {
	v.Helper()
	if err := v.bare.QueryRow(text).Scan(&n); err != nil {
		v.Fatal(err)
	}
	return n
}

// readValue reads what a bare write of the value left through both, by a
// SELECT and by RETURNING, into an any and into a variable of the value's type.
func (v *env) readValue(ctx context.Context, what, column string, arg any) {
	v.Helper()
	v.do("DELETE FROM vals", "INSERT INTO vals (id, n) VALUES (1, 0)")
	_, _ = v.bare.Exec(v.mark("UPDATE vals SET "+column+" = ? WHERE id = 1"), arg)
	texts := map[string][]any{"SELECT " + column + " FROM vals WHERE id = ?": {1}}
	if v.returning {
		texts["UPDATE vals SET n = ? WHERE id = ? RETURNING "+column] = []any{8, 1}
		texts["UPDATE vals SET n = ? WHERE id < ? RETURNING "+column] = []any{9, 3}
	}
	for text, args := range texts {
		read := func(db *sql.DB, dest any) string {
			return words(db.QueryRowContext(ctx, v.mark(text), args...).Scan(dest))
		}
		dest := func() any { return new(any) }
		for range 2 {
			want, got := dest(), dest()
			wantErr, gotErr := read(v.bare, want), read(v.db, got)
			gotShown, wantShown := fmt.Sprintf("%#v", reflect.ValueOf(got).Elem()), fmt.Sprintf("%#v", reflect.ValueOf(want).Elem())
			if gotErr != wantErr || !reflect.DeepEqual(got, want) && gotShown != wantShown { // NaN is never equal
				v.Errorf("%s: %s gives %s, %s; bare %s, %s", what, text, gotShown, gotErr, wantShown, wantErr)
			}
			if arg == nil {
				break
			}
			dest = func() any { return reflect.New(reflect.TypeOf(arg)).Interface() }
		}
	}
}

// TestValuesAsKeys: a value that finds a row bare finds it in a fenced
// statement, and there it tells the row's newer fence.
func TestValuesAsKeys(t *testing.T) {
	for _, e := range valueEngines() {
		t.Run(e.name, func(t *testing.T) {
			var keyed []fencedsql.Table
			for _, c := range valueColumns {
				keyed = append(keyed, fencedsql.Table{Name: "by_" + c.name, Key: []string{"id"}})
			}
			v := e.open(t, fencedsql.WithTables(keyed...))
			ctx := v.under(6)
			found := 0
			for _, c := range valueColumns {
				typ, ok := c.types[e.dialect]
				if indexed, ok := map[string]string{"TEXT": "VARCHAR(200)", "BLOB": "VARBINARY(200)"}[typ]; ok && e.dialect == "mysql" {
					typ = indexed
				}
				if !ok || c.name == "js" || c.name == "r" { // json has no order, and what is close to a float is not it
					continue
				}
				table := "by_" + c.name
				v.do("CREATE TABLE " + table + " (id " + typ + " NOT NULL PRIMARY KEY, v INTEGER, fence VARCHAR(40) NOT NULL)")
				for _, group := range values {
					if group.columns != "" && !slices.Contains(strings.Fields(group.columns), c.name) {
						continue
					}
					for _, arg := range group.args {
						what := fmt.Sprintf("%.80s in %s", fmt.Sprintf("%T %+v", arg, arg), c.name)
						v.do("DELETE FROM " + table)
						if _, err := v.bare.Exec(v.mark("INSERT INTO "+table+" (id, v, fence) VALUES (?, 0, '"+text(5)+"')"), arg); err != nil {
							continue
						}
						update := v.mark("UPDATE " + table + " SET v = ? WHERE id = ?")
						for road, run := range valueRoads {
							v.do("UPDATE " + table + " SET v = 0, fence = '" + text(5) + "'")
							n, wantErr := run(v.bare, ctx, update, []any{1, arg})
							got, err := run(v.db, ctx, update, []any{2, arg})
							if got != n || words(err) != words(wantErr) {
								v.Errorf("%s, %s: %d rows, %v; bare %d rows, %v", what, road, got, err, n, wantErr)
							}
							if n == 0 {
								continue
							}
							found++
							v.do("UPDATE " + table + " SET fence = '" + text(7) + "'")
							_, err = run(v.db, ctx, update, []any{3, arg})
							v.fenced(err, table, 6, 7)
							if n := v.count("SELECT v FROM " + table); n != 2 {
								v.Errorf("%s, %s: v is %d, want 2", what, road, n)
							}
						}
					}
				}
			}
			if found < 80 {
				t.Errorf("only %d keys found their rows", found)
			}
		})
	}
}

// TestDriverOptions: what pgx takes in front of the values means what it means
// to the bare driver, in its five modes and whatever the default is.
func TestDriverOptions(t *testing.T) {
	for _, e := range only(postgresEngines()[:5]) {
		t.Run(e.name, func(t *testing.T) {
			v := e.openValues(t)
			ctx := v.under(6)
			for _, options := range [][]any{
				{pgx.QueryExecModeCacheStatement}, {pgx.QueryExecModeCacheDescribe}, {pgx.QueryExecModeDescribeExec}, {pgx.QueryExecModeExec}, {pgx.QueryExecModeSimpleProtocol},
				{pgx.QueryResultFormats{1}}, {pgx.QueryExecModeExec, pgx.QueryResultFormatsByOID{25: 0}},
			} {
				for _, arg := range []any{"x", []int32{1}, aTime, uint64(math.MaxUint64), doc{}, nil} {
					for name, road := range valueRoads {
						what, w := fmt.Sprintf("%T %T", options, arg), valueWrite{name: name, road: road, texts: valuePinned, rows: 1}
						args := append(options[:len(options):len(options)], 1, arg, 1)
						v.sameUnfenced(ctx, what, v.sameAsBare(ctx, what, w, "t", args), w, "t", args)
					}
				}
			}
			byName := valueWrite{name: "named arguments", road: executed, texts: all("UPDATE %[1]s SET %[2]s = @v WHERE id = @id")}
			args := []any{pgx.NamedArgs{"v": "x", "id": 1}}
			want := v.writeValue(v.bare, ctx, byName, "vals", "t", args)
			if want.rows != 1 {
				t.Errorf("%s: %+v", byName.name, want)
			}
			v.sameUnfenced(ctx, "text", want, byName, "t", args)
			// They rewrite the text that was fenced already.
			v.do("UPDATE vals SET t = 'before'")
			_, err := v.exec(ctx, "UPDATE vals SET t = @v WHERE id = @id", args...)
			v.is(err, fencedsql.ErrUnfenceable)
			if n := v.count("SELECT count(*) FROM vals WHERE t = 'before'"); n != 1 {
				t.Error("refused, and written")
			}
		})
	}
}

// TestArgumentsThatDoNotFit: the wrong number of arguments, and names that the
// text does not have, mean to a table that is not fenced what they mean to the
// bare driver; to a fenced one they are an error, and nothing is written.
func TestArgumentsThatDoNotFit(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		v := e.openValues(t)
		ctx := v.under(6)
		for _, args := range [][]any{
			{}, {"x"}, {"x", 1, 2}, {"x", pgx.QueryExecModeExec, 1}, {pgx.QueryExecModeExec, "x", 1, 2},
			{sql.Named("v", "x"), sql.Named("id", 1)}, {sql.Named("v", "x"), 1},
		} {
			for name, road := range valueRoads {
				w := valueWrite{name: name, road: road, texts: all("UPDATE %[1]s SET %[2]s = ? WHERE id = ?")}
				v.sameUnfenced(ctx, fmt.Sprint(args), v.writeValue(v.bare, ctx, w, "vals", "t", args), w, "t", args)
				if got := v.writeValue(v.db, ctx, w, "vals", "t", args); got.err == "" || got.left != "1|0|NULL" {
					t.Errorf("%v, %s: %+v", args, name, got)
				}
			}
		}
	})
}
