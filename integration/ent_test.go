package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/sqlgraph"
	"entgo.io/ent/schema/field"

	fencedsql "github.com/fencedsql/fencedsql/driver"
)

// TestEnt: the code that ent generates fills in these specifications; sqlgraph
// makes the texts and the transactions of them.
func TestEnt(t *testing.T) {
	eachLibrary(t, func(_ *testing.T, v *env) dialect.Driver {
		return entsql.OpenDB(map[string]string{"sqlite": dialect.SQLite, "postgres": dialect.Postgres, "mysql": dialect.MySQL}[v.dialect], v.db)
	}, entCases)
}

var entCases = []libraryCase[dialect.Driver]{
	{name: "create", run: func(ctx context.Context, db dialect.Driver) error {
		spec := entDoc("c", 3)
		return errors.Join(sqlgraph.CreateNode(ctx, db, spec), entKnows(ctx, db, spec))
	}, want: docsStart + ", c|3|live|f6"},
	{name: "create many", run: func(ctx context.Context, db dialect.Driver) error {
		specs := []*sqlgraph.CreateSpec{entDoc("c", 3), entDoc("d", 4), entDoc("e", 5)}
		return errors.Join(sqlgraph.BatchCreate(ctx, db, &sqlgraph.BatchCreateSpec{Nodes: specs}), entKnows(ctx, db, specs...))
	}, want: docsStart + ", c|3|live|f6, d|4|live|f6, e|5|live|f6"},

	{name: "update one", run: func(ctx context.Context, db dialect.Driver) error {
		title, err := entUpdateOne(ctx, db, 1, nil)
		if err == nil && title != "x" {
			err = fmt.Errorf("the row is read back with title %q", title)
		}
		return err
	}, want: "b|20|live|f7, x|11|live|f6"},
	{name: "update one, stale", run: func(ctx context.Context, db dialect.Driver) error {
		_, err := entUpdateOne(ctx, db, 2, nil)
		return err
	}},
	{name: "update one that is gone", run: func(ctx context.Context, db dialect.Driver) error {
		_, err := entUpdateOne(ctx, db, 99, nil)
		var gone *sqlgraph.NotFoundError
		if !errors.As(err, &gone) {
			return fmt.Errorf("got %w, want not found", err)
		}
		return nil
	}, want: docsStart},
	{name: "update one with a condition", run: func(ctx context.Context, db dialect.Driver) error {
		_, err := entUpdateOne(ctx, db, 1, func(s *entsql.Selector) { s.Where(entsql.EQ(s.C("n"), 10)) })
		return err
	}, want: "b|20|live|f7, x|11|live|f6"},
	{name: "update one with a condition, stale", run: func(ctx context.Context, db dialect.Driver) error {
		_, err := entUpdateOne(ctx, db, 2, func(s *entsql.Selector) { s.Where(entsql.EQ(s.C("n"), 20)) })
		return err
	}},
	{name: "update", run: func(ctx context.Context, db dialect.Driver) error {
		return entUpdate(ctx, db, 1, entsql.FieldLT("n", 15))
	}, want: "a|0|live|f6, b|20|live|f7"},
	{name: "update, one stale", run: func(ctx context.Context, db dialect.Driver) error {
		return entUpdate(ctx, db, 2, entsql.FieldGT("n", 0))
	}},

	{name: "OnConflict", run: func(ctx context.Context, db dialect.Driver) error {
		spec := entDoc("a", 1)
		spec.OnConflict = entUpsert
		return errors.Join(sqlgraph.CreateNode(ctx, db, spec), entKnows(ctx, db, spec))
	}, want: "a|1|live|f6, b|20|live|f7"},
	{name: "OnConflict of a new row", run: func(ctx context.Context, db dialect.Driver) error {
		spec := entDoc("c", 3)
		spec.OnConflict = entUpsert
		return errors.Join(sqlgraph.CreateNode(ctx, db, spec), entKnows(ctx, db, spec))
	}, want: docsStart + ", c|3|live|f6"},
	{name: "OnConflict, stale", run: func(ctx context.Context, db dialect.Driver) error {
		spec := entDoc("b", 1)
		spec.OnConflict = entUpsert
		return sqlgraph.CreateNode(ctx, db, spec)
	}},
	{name: "OnConflict of many, one stale", run: func(ctx context.Context, db dialect.Driver) error {
		return sqlgraph.BatchCreate(ctx, db, &sqlgraph.BatchCreateSpec{Nodes: []*sqlgraph.CreateSpec{entDoc("c", 3), entDoc("a", 1), entDoc("b", 2)}, OnConflict: entUpsert})
	}},
	// ent says so where nothing was inserted; on MySQL it sends ON DUPLICATE KEY UPDATE id = id, which is a write.
	{name: "OnConflict DoNothing, stale", run: func(ctx context.Context, db dialect.Driver) error {
		spec := entDoc("b", 1)
		spec.OnConflict = []entsql.ConflictOption{entsql.ConflictColumns("title"), entsql.DoNothing()}
		err := sqlgraph.CreateNode(ctx, db, spec)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return err
	}, want: docsStart, on: map[string]string{"mysql": ""}},
	// It sets each column to itself, which is a write.
	{name: "OnConflict Ignore, stale", run: func(ctx context.Context, db dialect.Driver) error {
		spec := entDoc("b", 1)
		spec.OnConflict = []entsql.ConflictOption{entsql.ConflictColumns("title"), entsql.ResolveWithIgnore()}
		return sqlgraph.CreateNode(ctx, db, spec)
	}},

	{name: "delete", run: func(ctx context.Context, db dialect.Driver) error {
		return entDelete(ctx, db, 1, entsql.FieldEQ("id", 1))
	}, want: "b|20|live|f7"},
	{name: "delete, stale", run: func(ctx context.Context, db dialect.Driver) error {
		return entDelete(ctx, db, 1, entsql.FieldEQ("id", 2))
	}},
	{name: "delete of many", run: func(ctx context.Context, db dialect.Driver) error {
		return entDelete(ctx, db, 1, entsql.FieldLT("n", 15))
	}, want: "b|20|live|f7"},
	{name: "delete of many, one stale", run: func(ctx context.Context, db dialect.Driver) error {
		return entDelete(ctx, db, 2, func(*entsql.Selector) {})
	}},

	{name: "transaction", run: func(ctx context.Context, db dialect.Driver) error {
		return entTx(ctx, db, func(tx dialect.Driver) error {
			_, err := entUpdateOne(ctx, tx, 1, nil)
			return errors.Join(sqlgraph.CreateNode(ctx, tx, entDoc("c", 3)), err)
		})
	}, want: "b|20|live|f7, c|3|live|f6, x|11|live|f6"},
	{name: "transaction that keeps quiet, stale", run: func(ctx context.Context, db dialect.Driver) error {
		return entTx(ctx, db, func(tx dialect.Driver) error {
			_ = sqlgraph.CreateNode(ctx, tx, entDoc("c", 3))
			_, _ = entUpdateOne(ctx, tx, 2, nil)
			return nil
		})
	}},
	{name: "no lease", run: func(_ context.Context, db dialect.Driver) error {
		_, err := entUpdateOne(context.Background(), db, 1, nil)
		for _, err := range []error{err, sqlgraph.CreateNode(context.Background(), db, entDoc("c", 3))} {
			if !errors.Is(err, fencedsql.ErrNoLease) {
				return fmt.Errorf("got %w, want ErrNoLease", err)
			}
		}
		return nil
	}, want: docsStart},
}

func entID() *sqlgraph.FieldSpec { return sqlgraph.NewFieldSpec("id", field.TypeInt) }

func entDoc(title string, n int) *sqlgraph.CreateSpec {
	spec := sqlgraph.NewCreateSpec("docs", entID())
	spec.SetField("title", field.TypeString, title)
	spec.SetField("n", field.TypeInt, n)
	return spec
}

var entUpsert = []entsql.ConflictOption{entsql.ConflictColumns("title"), entsql.ResolveWithNewValues()}

// entUpdateOne is what UpdateOneID(id).SetTitle("x").AddN(1) does: it updates
// the row and reads it, in one transaction.
func entUpdateOne(ctx context.Context, db dialect.Driver, id int, where func(*entsql.Selector)) (title string, err error) {
	spec := sqlgraph.NewUpdateSpec("docs", []string{"id", "title"}, entID())
	spec.Node.ID.Value = id
	spec.Predicate = where
	spec.SetField("title", field.TypeString, "x")
	spec.AddField("n", field.TypeInt, 1)
	spec.ScanValues = func([]string) ([]any, error) { return []any{new(int), &title}, nil }
	spec.Assign = func([]string, []any) error { return nil }
	return title, sqlgraph.UpdateNode(ctx, db, spec)
}

func entUpdate(ctx context.Context, db dialect.Driver, want int, where func(*entsql.Selector)) error {
	spec := sqlgraph.NewUpdateSpec("docs", []string{"id", "title"}, entID())
	spec.Predicate = where
	spec.SetField("n", field.TypeInt, 0)
	n, err := sqlgraph.UpdateNodes(ctx, db, spec)
	if err == nil && n != want {
		err = fmt.Errorf("%d rows, want %d", n, want)
	}
	return err
}

func entDelete(ctx context.Context, db dialect.Driver, want int, where func(*entsql.Selector)) error {
	spec := sqlgraph.NewDeleteSpec("docs", entID())
	spec.Predicate = where
	n, err := sqlgraph.DeleteNodes(ctx, db, spec)
	if err == nil && n != want {
		err = fmt.Errorf("%d rows, want %d", n, want)
	}
	return err
}

func entTx(ctx context.Context, db dialect.Driver, work func(tx dialect.Driver) error) error {
	tx, err := db.Tx(ctx)
	if err != nil {
		return err
	}
	if err := work(entDriver{tx, db}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// entDriver is ent's txDriver: a transaction in which no other begins.
type entDriver struct {
	dialect.ExecQuerier
	db dialect.Driver
}

func (d entDriver) Tx(context.Context) (dialect.Tx, error) { return dialect.NopTx(d), nil }
func (d entDriver) Close() error                           { return nil }
func (d entDriver) Dialect() string                        { return d.db.Dialect() }

// entKnows checks that ent knows the keys that the engine gave.
func entKnows(ctx context.Context, db dialect.Driver, specs ...*sqlgraph.CreateSpec) error {
	for _, spec := range specs {
		rows := &entsql.Rows{}
		text, args := entsql.Dialect(db.Dialect()).Select("id").From(entsql.Table("docs")).Where(entsql.EQ("title", spec.Fields[0].Value)).Query()
		if err := db.Query(ctx, text, args, rows); err != nil {
			return err
		}
		id, err := entsql.ScanInt64(rows)
		if err := errors.Join(err, rows.Close()); err != nil {
			return err
		}
		if spec.ID.Value != id {
			return fmt.Errorf("%v has key %d, and ent says %v", spec.Fields[0].Value, id, spec.ID.Value)
		}
	}
	return nil
}
