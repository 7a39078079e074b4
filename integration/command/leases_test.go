package command

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
)

func (v *env) store(opts ...sqlstore.Option) *sqlstore.Store {
	v.Helper()
	s, err := sqlstore.Open(v.Context(), v.bare(), opts...)
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { s.Close() })
	return s
}

// TestDDL: the output is a script that makes a store, twice if need be.
func TestDDL(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		schema := "other_" + v.database[len(v.database)-12:]
		v.do("CREATE SCHEMA " + schema) // MySQL's word for a database
		defer v.do("DROP SCHEMA " + schema + v.dialect.cascade)
		script := func(args ...string) {
			db := v.bare(v.script...)
			defer db.Close()
			out := outcome(t, with(t, nil, append([]string{"leases", "ddl", "-engine", v.engine.engine}, args...)...))
			if out.code != 0 || out.stderr != "" || !strings.HasSuffix(out.out, ";\n") {
				t.Fatalf("exit code %d\n%s\n%s", out.code, out.out, out.stderr)
			}
			for range 2 {
				if _, err := db.Exec(out.out); err != nil {
					t.Fatalf("%v\n%s", err, out.out)
				}
			}
		}
		script()
		script("-schema", schema, "-prefix", "my_")
		for _, s := range []*sqlstore.Store{
			v.store(sqlstore.WithoutMigrate()),
			v.store(sqlstore.WithoutMigrate(), sqlstore.WithSchema(schema), sqlstore.WithPrefix("my_")),
		} {
			h, err := s.Locks("f", time.Minute).TryAcquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			defer h.Release(context.Background())
		}
		for _, args := range [][]string{{}, {"-schema", schema, "-prefix", "my_"}} {
			if out := v.must(append([]string{"leases", "list"}, args...)...); strings.Count(out, `"f"`) != 1 {
				t.Errorf("%v: the list is\n%s", args, out)
			}
		}
	})
}

func TestList(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		s := v.store(sqlstore.WithOwner("me"))
		if out := v.must("leases", "list"); out != "no lease is held\n" {
			t.Errorf("an empty store: %q", out)
		}
		held, err := s.Locks("summaries", time.Minute).TryAcquire(t.Context(), "chät\n42")
		if err != nil {
			t.Fatal(err)
		}
		slot, err := s.Semaphore("mails", 3, time.Minute).TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := v.must("leases", "list")
		want := `^NAME .*\n"mails" +semaphore, slot [1-3] +none +"me" .*\n"summaries" +"chät\\n42" +` + held.Fence().String() + ` +"me" .*\n$`
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
		for _, h := range []*sqlstore.Held{held, slot} { // the list took nothing from them
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		before := v.tables()
		r := v.call("leases", "list", "-prefix", "other_")
		if r.code != 1 || !strings.Contains(r.stderr, "other_epoch") {
			t.Errorf("another prefix: exit code %d, %s", r.code, r.stderr)
		}
		if after := v.tables(); len(after) != len(before) {
			t.Errorf("there were the tables %v and are %v", before, after)
		}
	})
}

// quoted is a name as it is written for raise-above.
func quoted(name string) string {
	if strings.ContainsAny(name, ".,\"` ") {
		return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return name
}

// create makes the columns' tables, and returns how raise-above is told of them.
func (v *env) create(columns []column) (names []string) {
	q := func(name string) string {
		return v.dialect.quote + strings.ReplaceAll(name, v.dialect.quote, v.dialect.quote+v.dialect.quote) + v.dialect.quote
	}
	for _, c := range columns {
		v.do("CREATE TABLE " + q("t"+c.name) + " (" + q(c.name) + " " + c.kind + ")")
		for _, value := range c.values {
			v.do("INSERT INTO " + q("t"+c.name) + " VALUES (" + value + ")")
		}
		names = append(names, quoted("t"+c.name)+"."+quoted(c.name))
	}
	return names
}

// epoch is that of the store, which grows when it is opened or raised.
func (v *env) epoch() int64 {
	return read[int64](v.TB, v.bare(), "SELECT epoch FROM fencedsql_epoch")
}

// writes checks that a new lease of the store writes a row that has the fence floor, and that its own is there then.
func (v *env) writes(store *sqlstore.Store, floor lease.Fence) {
	v.Helper()
	table := fencedsql.Table{Name: "rows_of_" + fmt.Sprintf("%x", floor), Key: []string{"id"}}
	v.do("CREATE TABLE "+table.Name+" (id BIGINT PRIMARY KEY, v BIGINT NOT NULL, fence CHAR(40) NOT NULL)",
		"INSERT INTO "+table.Name+" VALUES (1, 0, "+text(floor)+")")
	db, err := fencedsql.Open(v.driver, v.dsn(), fencedsql.WithTables(table))
	if err != nil {
		v.Fatal(err)
	}
	defer db.Close()
	if err := store.Locks("rows", time.Minute).Hold(v.Context(), "1", func(ctx context.Context, l *lease.Lease) error {
		_, err := db.ExecContext(ctx, "UPDATE "+table.Name+" SET v = 7 WHERE id = "+v.dialect.first, 1)
		return err
	}); err != nil {
		v.Error(err)
	}
	var got lease.Fence
	if err := got.Scan(read[string](v.TB, v.bare(), "SELECT fence FROM "+table.Name+" WHERE v = 7")); err != nil || !floor.Less(got) {
		v.Errorf("the row has the fence %v, %v", got, err)
	}
}

// TestRaiseAbove: the largest of what the tables hold is found, whatever the type of the column, and the next lease is
// above it.
func TestRaiseAbove(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		store := v.store() // open all along
		columns := v.dialect.fences
		names := v.create(columns)
		out := v.must("leases", "raise-above", "-from-tables", strings.Join(names, ","))
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != len(columns)+2 {
			t.Fatalf("%d lines:\n%s", len(lines), out)
		}
		for i, c := range columns {
			want := "t" + c.name + "." + c.name + " +no rows +none"
			if len(c.values) > 0 {
				want = fmt.Sprintf("%s +%d +%v", regexp.QuoteMeta("t"+c.name+"."+c.name), len(c.values), c.largest)
			}
			if !regexp.MustCompile("^" + want + "$").MatchString(lines[i+1]) {
				t.Errorf("the line is not %s but\n%s", want, lines[i+1])
			}
		}
		if want := "raised: every lease taken from now on has a fence above " + far.String(); lines[len(lines)-1] != want {
			t.Errorf("the last line is not %s but\n%s", want, lines[len(lines)-1])
		}
		v.writes(store, far)

		further := lease.Fence{Epoch: far.Epoch + 1<<20, Count: 7}
		if out := v.must("leases", "raise-above", "-fence", further.String()); !strings.HasSuffix(out, "above "+further.String()+"\n") {
			t.Errorf("the output is %s", out)
		}
		v.writes(store, further)

		schema := v.database
		if v.dialect == &postgres {
			schema = "public"
		}
		if out := v.must("leases", "raise-above", "-from-tables", schema+".tbig.big"); !strings.Contains(out, schema+".tbig.big  3     10") {
			t.Errorf("the output is %s", out)
		}
	})
}

// TestRaiseNothing: a value that is no fence, on any engine, is an error that names the table and the column and shows
// no value, and the store is not touched.
func TestRaiseNothing(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		v.store()
		before := v.epoch()
		raise := func(names ...string) string {
			t.Helper()
			r := v.call("leases", "raise-above", "-from-tables", strings.Join(names, ","))
			if r.code != 1 || r.out != "" || !strings.Contains(r.stderr, "nothing was raised: ") {
				t.Errorf("%v: exit code %d\n%s\n%s", names, r.code, r.out, r.stderr)
			}
			if strings.Contains(r.stderr, "777") {
				t.Errorf("%v: the error shows a value: %s", names, r.stderr)
			}
			v.hides(strings.ReplaceAll(r.stderr, v.database+".", "")) // as MySQL calls a table
			return r.stderr
		}
		names := v.create(v.dialect.bad)
		all := raise(names...)
		for _, c := range v.dialect.bad {
			if want := "table t" + c.name + ", column " + c.name + ": " + c.want; !strings.Contains(all, want) {
				t.Errorf("no %q in\n%s", want, all)
			}
		}
		good := v.create([]column{{name: "good", kind: "CHAR(40) NOT NULL", values: []string{text(far)}}})
		if err := raise(append(good, names[0])...); strings.Contains(err, "good") {
			t.Errorf("the error names a good column: %s", err)
		}
		for name, want := range map[string]string{
			"tgood.none": "table tgood, column none: ",
			"none.good":  "table none, column good: ",
			"no.good.x":  "table no.good, column x: ",
			`"tgood; DROP TABLE tgood"."good) FROM tgood; DROP TABLE tgood; --"`: "table tgood; DROP TABLE tgood, ",
		} {
			if err := raise(name); !strings.Contains(err, want) {
				t.Errorf("no %q in %s", want, err)
			}
		}
		if after := v.epoch(); after != before {
			t.Errorf("the epoch was %d and is %d", before, after)
		}
		read[string](t, v.bare(), "SELECT good FROM tgood")
	})
}

// TestHiddenRows: who may not see all rows is told so, and does not get the largest fence of some.
func TestHiddenRows(t *testing.T) {
	on(t, only(&postgres), func(t *testing.T, v *env) {
		v.store()
		v.create([]column{{name: "f", kind: "text NOT NULL", values: []string{small(1), text(far)}}})
		role := "r" + v.database[:min(50, len(v.database))]
		v.do("CREATE ROLE "+role+" LOGIN", "GRANT ALL ON ALL TABLES IN SCHEMA public TO "+role,
			"ALTER TABLE tf ENABLE ROW LEVEL SECURITY", "CREATE POLICY visible ON tf USING (f < "+text(far)+")")
		defer v.do("DROP OWNED BY "+role, "DROP ROLE "+role)
		cmd := with(t, []string{"FENCEDSQL_DSN=" + v.dialect.user(v.dsn(), role)}, "leases", "raise-above", "-engine", "postgres", "-from-tables", "tf.f")
		if r := outcome(t, cmd); r.code != 1 || !strings.Contains(r.stderr, "table tf, column f: ") || !strings.Contains(r.stderr, "row-level security") {
			t.Errorf("exit code %d\n%s\n%s", r.code, r.out, r.stderr)
		}
		if out := v.must("leases", "raise-above", "-from-tables", "tf.f"); !strings.Contains(out, far.String()) {
			t.Errorf("as the owner: %s", out)
		}
	})
}

func only(d *dialect) (list []*engine) {
	for _, e := range chosen() {
		if e.dialect == d {
			return []*engine{e}
		}
	}
	return nil
}

// TestOtherDatabase: the leases are in a SQLite file, the tables on a server.
func TestOtherDatabase(t *testing.T) {
	eachDialect(t, func(t *testing.T, v *env) {
		kv := filepath.Join(t.TempDir(), "kv.db")
		file, err := sql.Open("sqlite3", kv)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		store, err := sqlstore.Open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		names := v.create([]column{{name: "f", kind: "CHAR(40) NOT NULL", values: []string{text(far)}}})
		args := []string{"leases", "raise-above", "-engine", "sqlite", "-from-tables", names[0], "-data-engine", v.engine.engine}
		r := outcome(t, with(t, []string{"FENCEDSQL_DSN=" + kv, "FENCEDSQL_DATA_DSN=" + v.dsn()}, args...))
		if r.code != 0 || !strings.Contains(r.out, "above "+far.String()) {
			t.Fatalf("exit code %d\n%s\n%s", r.code, r.out, r.stderr)
		}
		v.writes(store, far)
		r = outcome(t, with(t, []string{"FENCEDSQL_DSN=" + kv}, append(args, "-data-dsn", v.dsn())...))
		if r.code != 0 || !strings.Contains(r.out, "above "+far.String()) {
			t.Fatalf("exit code %d\n%s\n%s", r.code, r.out, r.stderr)
		}
	})
}
