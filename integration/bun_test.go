package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"

	fencedsql "github.com/fencedsql/fencedsql/driver"
)

type bunDoc struct {
	bun.BaseModel `bun:"table:docs,alias:d"`

	ID        int64 `bun:",pk,autoincrement"`
	Title     string
	N         int
	DeletedAt time.Time `bun:",soft_delete,nullzero"`
}

func TestBun(t *testing.T) {
	eachLibrary(t, func(t *testing.T, v *env) *bun.DB {
		return bun.NewDB(v.db, map[string]func() schema.Dialect{
			"sqlite":   func() schema.Dialect { return sqlitedialect.New() },
			"postgres": func() schema.Dialect { return pgdialect.New() },
			"mysql":    func() schema.Dialect { return mysqldialect.New() },
		}[v.dialect]())
	}, bunCases)
}

var bunCases = []libraryCase[*bun.DB]{
	{name: "insert", run: func(ctx context.Context, db *bun.DB) error {
		return createdByBun(ctx, db, []bunDoc{{Title: "c", N: 3}})
	}, want: docsStart + ", c|3|live|f6"},
	{name: "insert many", run: func(ctx context.Context, db *bun.DB) error {
		return createdByBun(ctx, db, []bunDoc{{Title: "c"}, {Title: "d"}, {Title: "e"}})
	}, want: docsStart + ", c|0|live|f6, d|0|live|f6, e|0|live|f6"},
	{name: "insert of a map", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewInsert().Model(&map[string]any{"title": "c", "n": 3}).Table("docs").Exec(ctx)
		return err
	}, want: docsStart + ", c|3|live|f6"},
	{name: "insert ignore", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewInsert().Model(&[]bunDoc{{Title: "b"}, {Title: "c"}}).Ignore().Exec(ctx)
		return err
	}, want: docsStart + ", c|0|live|f6"},

	{name: "update of a model", run: func(ctx context.Context, db *bun.DB) error {
		res, err := db.NewUpdate().Model(&bunDoc{ID: 1, Title: "x", N: 1}).WherePK().Exec(ctx)
		return changed(1, res, err)
	}, want: "b|20|live|f7, x|1|live|f6"},
	{name: "update of a model, stale", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewUpdate().Model(&bunDoc{ID: 2, Title: "x"}).Column("title").WherePK().Exec(ctx)
		return err
	}},
	{name: "update of a row that is gone", run: func(ctx context.Context, db *bun.DB) error {
		res, err := db.NewUpdate().Model(&bunDoc{ID: 99, Title: "x"}).WherePK().Exec(ctx)
		return changed(0, res, err)
	}, want: docsStart},
	{name: "update with OmitZero", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewUpdate().Model(&bunDoc{ID: 1, N: 1}).OmitZero().WherePK().Exec(ctx)
		return err
	}, want: "a|1|live|f6, b|20|live|f7"},
	{name: "update with Set", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewUpdate().Table("docs").Set("n = n * ? + ?", 2, 1).Where("id = ?", 1).Exec(ctx)
		return err
	}, want: "a|21|live|f6, b|20|live|f7"},
	{name: "update with Set, stale", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewUpdate().Model((*bunDoc)(nil)).Set("n = ?", 1).Where("id = ?", 2).Exec(ctx)
		return err
	}},
	{name: "update of many", run: func(ctx context.Context, db *bun.DB) error {
		res, err := db.NewUpdate().Model((*bunDoc)(nil)).Set("n = 0").Where("d.n < ?", 15).Exec(ctx)
		return changed(1, res, err)
	}, want: "a|0|live|f6, b|20|live|f7"},
	{name: "update of many, one stale", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewUpdate().Model((*bunDoc)(nil)).Set("n = 0").Where("d.id IN (?)", bun.List([]int{1, 2})).Exec(ctx)
		return err
	}},
	// bun's text for MySQL 8 is none that MariaDB takes.
	{name: "bulk update", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewUpdate().Model(&[]bunDoc{{ID: 1, N: 1}, {ID: 99, N: 2}}).Column("n").Bulk().Exec(ctx)
		return err
	}, want: "a|1|live|f6, b|20|live|f7", on: map[string]string{"mysql": "-"}},
	{name: "bulk update, one stale", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewUpdate().Model(&[]bunDoc{{ID: 1, N: 1}, {ID: 2, N: 2}}).Column("n").Bulk().Exec(ctx)
		return err
	}, on: map[string]string{"mysql": "-"}},
	{name: "update with Returning, stale", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewUpdate().Model(&bunDoc{ID: 2, Title: "x"}).WherePK().Returning("*").Exec(ctx)
		return err
	}, on: map[string]string{"mysql": "-"}},

	{name: "upsert", run: func(ctx context.Context, db *bun.DB) error {
		return bunUpsert(ctx, db, &[]bunDoc{{Title: "a", N: 1}, {Title: "c", N: 3}})
	}, want: "a|1|live|f6, b|20|live|f7, c|3|live|f6"},
	{name: "upsert, stale", run: func(ctx context.Context, db *bun.DB) error {
		return bunUpsert(ctx, db, &bunDoc{Title: "b", N: 1})
	}},
	{name: "upsert of many, one stale", run: func(ctx context.Context, db *bun.DB) error {
		return bunUpsert(ctx, db, &[]bunDoc{{Title: "c"}, {Title: "a"}, {Title: "b"}})
	}},

	{name: "soft delete", run: func(ctx context.Context, db *bun.DB) error {
		res, err := db.NewDelete().Model(&bunDoc{ID: 1}).WherePK().Exec(ctx)
		return changed(1, res, err)
	}, want: "a|10|deleted|f6, b|20|live|f7"},
	{name: "soft delete, stale", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewDelete().Model(&bunDoc{ID: 2}).WherePK().Exec(ctx)
		return err
	}},
	{name: "soft delete of many, one stale", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewDelete().Model((*bunDoc)(nil)).Where("n > 0").Exec(ctx)
		return err
	}},
	{name: "delete", run: func(ctx context.Context, db *bun.DB) error {
		res, err := db.NewDelete().Model(&bunDoc{ID: 1}).WherePK().ForceDelete().Exec(ctx)
		return changed(1, res, err)
	}, want: "b|20|live|f7"},
	{name: "delete, stale", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewDelete().Model(&bunDoc{ID: 2}).WherePK().ForceDelete().Exec(ctx)
		return err
	}},
	{name: "delete of many", run: func(ctx context.Context, db *bun.DB) error {
		res, err := db.NewDelete().Model((*bunDoc)(nil)).Where("n < ?", 15).ForceDelete().Exec(ctx)
		return changed(1, res, err)
	}, want: "b|20|live|f7"},
	{name: "delete of many, one stale", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewDelete().Model((*bunDoc)(nil)).Where("1 = 1").ForceDelete().Exec(ctx)
		return err
	}},

	{name: "RunInTx", run: func(ctx context.Context, db *bun.DB) error {
		return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewInsert().Model(&bunDoc{Title: "c"}).Exec(ctx)
			_, err2 := tx.NewUpdate().Model(&bunDoc{ID: 1, N: 1}).Column("n").WherePK().Exec(ctx)
			return errors.Join(err, err2)
		})
	}, want: "a|1|live|f6, b|20|live|f7, c|0|live|f6"},
	{name: "RunInTx that keeps quiet, stale", run: func(ctx context.Context, db *bun.DB) error {
		return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			_, _ = tx.NewInsert().Model(&bunDoc{Title: "c"}).Exec(ctx)
			_, _ = tx.NewUpdate().Model(&bunDoc{ID: 2, N: 1}).Column("n").WherePK().Exec(ctx)
			return nil
		})
	}},
	{name: "RunInTx in RunInTx, the inner one stale", run: func(ctx context.Context, db *bun.DB) error {
		return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			err := tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				_, err := tx.NewUpdate().Model(&bunDoc{ID: 2, N: 1}).Column("n").WherePK().Exec(ctx)
				return err
			})
			if !errors.Is(err, fencedsql.ErrFenced) {
				return fmt.Errorf("the inner transaction: %w", err)
			}
			_, err = tx.NewUpdate().Model(&bunDoc{ID: 1, N: 1}).Column("n").WherePK().Exec(ctx)
			return err
		})
	}, want: "a|1|live|f6, b|20|live|f7"},
	{name: "NewRaw, stale", run: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewRaw("UPDATE docs SET n = ? WHERE id = ?", 1, 2).Exec(ctx)
		return err
	}},
	{name: "no lease", run: func(_ context.Context, db *bun.DB) error {
		_, err := db.NewUpdate().Model(&bunDoc{ID: 1, N: 1}).Column("n").WherePK().Exec(context.Background())
		if !errors.Is(err, fencedsql.ErrNoLease) {
			return fmt.Errorf("got %w, want ErrNoLease", err)
		}
		return nil
	}, want: docsStart},
}

// bunUpsert writes by the title, in the dialect's words.
func bunUpsert(ctx context.Context, db *bun.DB, model any) error {
	q := db.NewInsert().Model(model)
	if db.Dialect().Name() == dialect.MySQL {
		q = q.On("DUPLICATE KEY UPDATE").Set("n = VALUES(n)")
	} else {
		q = q.On("CONFLICT (title) DO UPDATE").Set("n = EXCLUDED.n")
	}
	_, err := q.Exec(ctx)
	return err
}

// createdByBun checks that bun knows the keys that the engine gave.
func createdByBun(ctx context.Context, db *bun.DB, docs []bunDoc) error {
	res, err := db.NewInsert().Model(&docs).Exec(ctx)
	if err := changed(int64(len(docs)), res, err); err != nil {
		return err
	}
	for _, d := range docs {
		var stored bunDoc
		if err := db.NewSelect().Model(&stored).Where("title = ?", d.Title).Scan(ctx); err != nil {
			return err
		}
		if stored.ID != d.ID || d.ID == 0 {
			return fmt.Errorf("%s has key %d, and bun says %d", d.Title, stored.ID, d.ID)
		}
	}
	return nil
}

func changed(want int64, res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); n != want || err != nil {
		return fmt.Errorf("%d rows, want %d: %w", n, want, err)
	}
	return nil
}
