package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	fencedsql "github.com/fencedsql/fencedsql/driver"
)

type gormDoc struct {
	ID        int64
	Title     string
	N         int
	DeletedAt gorm.DeletedAt
}

func (gormDoc) TableName() string { return "docs" }

func TestGorm(t *testing.T) {
	for _, prepare := range []bool{false, true} {
		t.Run(fmt.Sprintf("PrepareStmt=%v", prepare), func(t *testing.T) {
			eachLibrary(t, func(t *testing.T, v *env) *gorm.DB {
				dialector := map[string]gorm.Dialector{
					"sqlite":   sqlite.Dialector{Conn: v.db},
					"postgres": postgres.New(postgres.Config{Conn: v.db}),
					"mysql":    mysql.New(mysql.Config{Conn: v.db}),
				}[v.dialect]
				db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard, PrepareStmt: prepare, TranslateError: true})
				if err != nil {
					t.Fatal(err)
				}
				return db
			}, gormCases)
		})
	}
}

var gormCases = []libraryCase[*gorm.DB]{
	{name: "Create", run: func(ctx context.Context, db *gorm.DB) error {
		return createdByGorm(ctx, db, []gormDoc{{Title: "c", N: 3}})
	}, want: docsStart + ", c|3|live|f6"},
	{name: "Create many", run: func(ctx context.Context, db *gorm.DB) error {
		return createdByGorm(ctx, db, []gormDoc{{Title: "c"}, {Title: "d"}, {Title: "e"}})
	}, want: docsStart + ", c|0|live|f6, d|0|live|f6, e|0|live|f6"},
	{name: "CreateInBatches", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).CreateInBatches([]gormDoc{{Title: "c"}, {Title: "d"}, {Title: "e"}}, 2).Error
	}, want: docsStart + ", c|0|live|f6, d|0|live|f6, e|0|live|f6"},
	{name: "Create of a map", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Model(&gormDoc{}).Create(map[string]any{"title": "c", "n": 3}).Error
	}, want: docsStart + ", c|3|live|f6"},

	{name: "Save", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Save(&gormDoc{ID: 1, Title: "x", N: 1}).Error
	}, want: "b|20|live|f7, x|1|live|f6"},
	{name: "Save twice", run: func(ctx context.Context, db *gorm.DB) error {
		d := gormDoc{ID: 1, Title: "x", N: 1}
		return errors.Join(db.WithContext(ctx).Save(&d).Error, db.WithContext(ctx).Save(&d).Error)
	}, want: "b|20|live|f7, x|1|live|f6"},
	{name: "Save, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Save(&gormDoc{ID: 2, Title: "x"}).Error
	}},
	{name: "Save of a new row", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Save(&gormDoc{ID: 50, Title: "c"}).Error
	}, want: docsStart + ", c|0|live|f6"},
	{name: "Save of many, one stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Save(&[]gormDoc{{ID: 1, Title: "x"}, {ID: 2, Title: "y"}, {ID: 50, Title: "z"}}).Error
	}},
	{name: "First and Save", run: func(ctx context.Context, db *gorm.DB) error {
		var d gormDoc
		if err := db.WithContext(ctx).First(&d, 1).Error; err != nil {
			return err
		}
		d.N++
		return db.WithContext(ctx).Save(&d).Error
	}, want: "a|11|live|f6, b|20|live|f7"},

	{name: "Updates of a struct", run: func(ctx context.Context, db *gorm.DB) error {
		return counted(1, db.WithContext(ctx).Model(&gormDoc{ID: 1}).Updates(gormDoc{Title: "x", N: 1}))
	}, want: "b|20|live|f7, x|1|live|f6"},
	{name: "Updates of a map, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Model(&gormDoc{ID: 2}).Updates(map[string]any{"title": "x"}).Error
	}},
	{name: "Update of an expression", run: func(ctx context.Context, db *gorm.DB) error {
		return counted(1, db.WithContext(ctx).Model(&gormDoc{}).Where("id = ?", 1).Update("n", gorm.Expr("n * ? + 1", 2)))
	}, want: "a|21|live|f6, b|20|live|f7"},
	{name: "UpdateColumn of many", run: func(ctx context.Context, db *gorm.DB) error {
		return counted(1, db.WithContext(ctx).Model(&gormDoc{}).Where("n < ?", 15).UpdateColumn("n", 0))
	}, want: "a|0|live|f6, b|20|live|f7"},
	{name: "UpdateColumns of many, one stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Model(&gormDoc{}).Where("n > ?", 0).UpdateColumns(gormDoc{N: 1}).Error
	}},
	{name: "Updates of a row that is gone", run: func(ctx context.Context, db *gorm.DB) error {
		return counted(0, db.WithContext(ctx).Model(&gormDoc{ID: 99}).Updates(gormDoc{Title: "x"}))
	}, want: docsStart},
	{name: "Updates with RETURNING, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Model(&gormDoc{ID: 2}).Clauses(clause.Returning{}).Updates(gormDoc{N: 1}).Error
	}, on: map[string]string{"mysql": "-"}}, // MariaDB has none, and gorm sends it
	{name: "Exec, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Exec("UPDATE docs SET n = @n WHERE id = @id", map[string]any{"n": 1, "id": 2}).Error
	}},

	{name: "FirstOrCreate finds", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Where(gormDoc{Title: "b"}).Attrs(gormDoc{N: 1}).FirstOrCreate(&gormDoc{}).Error
	}, want: docsStart},
	{name: "FirstOrCreate creates", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Where(gormDoc{Title: "c"}).Attrs(gormDoc{N: 1}).FirstOrCreate(&gormDoc{}).Error
	}, want: docsStart + ", c|1|live|f6"},
	{name: "FirstOrCreate assigns", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Where(gormDoc{Title: "a"}).Assign(gormDoc{N: 1}).FirstOrCreate(&gormDoc{}).Error
	}, want: "a|1|live|f6, b|20|live|f7"},
	{name: "FirstOrCreate assigns, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Where(gormDoc{Title: "b"}).Assign(gormDoc{N: 1}).FirstOrCreate(&gormDoc{}).Error
	}},

	{name: "OnConflict DoUpdates", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Clauses(gormUpsert).Create(&gormDoc{Title: "a", N: 1}).Error
	}, want: "a|1|live|f6, b|20|live|f7"},
	{name: "OnConflict DoUpdates, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Clauses(gormUpsert).Create(&gormDoc{Title: "b", N: 1}).Error
	}},
	{name: "OnConflict of a batch", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Clauses(gormUpsert).Create(&[]gormDoc{{Title: "c", N: 3}, {Title: "a", N: 1}}).Error
	}, want: "a|1|live|f6, b|20|live|f7, c|3|live|f6"},
	{name: "OnConflict of a batch, one stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Clauses(gormUpsert).Create(&[]gormDoc{{Title: "c"}, {Title: "a"}, {Title: "b"}}).Error
	}},
	{name: "OnConflict UpdateAll, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Clauses(clause.OnConflict{UpdateAll: true}).Create(&gormDoc{ID: 2, Title: "x"}).Error
	}},
	// On MySQL gorm sends ON DUPLICATE KEY UPDATE id = id, which is a write.
	{name: "OnConflict DoNothing", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&[]gormDoc{{Title: "a"}, {Title: "c"}}).Error
	}, want: docsStart + ", c|0|live|f6", on: map[string]string{"mysql": "a|10|live|f6, b|20|live|f7, c|0|live|f6"}},
	{name: "OnConflict DoNothing, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&gormDoc{Title: "b"}).Error
	}, want: docsStart, on: map[string]string{"mysql": ""}},

	{name: "soft delete", run: func(ctx context.Context, db *gorm.DB) error {
		return counted(1, db.WithContext(ctx).Delete(&gormDoc{ID: 1}))
	}, want: "a|10|deleted|f6, b|20|live|f7"},
	{name: "soft delete, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Delete(&gormDoc{}, 2).Error
	}},
	{name: "soft delete of many, one stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Where("n > ?", 0).Delete(&gormDoc{}).Error
	}},
	{name: "delete", run: func(ctx context.Context, db *gorm.DB) error {
		return counted(1, db.WithContext(ctx).Unscoped().Delete(&gormDoc{ID: 1}))
	}, want: "b|20|live|f7"},
	{name: "delete, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Unscoped().Delete(&gormDoc{ID: 2}).Error
	}},
	{name: "delete of many", run: func(ctx context.Context, db *gorm.DB) error {
		return counted(1, db.WithContext(ctx).Unscoped().Where("n < ?", 15).Delete(&gormDoc{}))
	}, want: "b|20|live|f7"},
	{name: "delete of many, one stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Unscoped().Delete(&gormDoc{}, []int{1, 2}).Error
	}},

	{name: "Transaction", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			return errors.Join(tx.Create(&gormDoc{Title: "c"}).Error, tx.Model(&gormDoc{ID: 1}).Update("n", 1).Error)
		})
	}, want: "a|1|live|f6, b|20|live|f7, c|0|live|f6"},
	{name: "Transaction, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := tx.Create(&gormDoc{Title: "c"}).Error; err != nil {
				return err
			}
			return tx.Model(&gormDoc{ID: 2}).Update("n", 1).Error
		})
	}},
	{name: "Transaction that keeps quiet, stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			tx.Create(&gormDoc{Title: "c"})
			tx.Model(&gormDoc{ID: 2}).Update("n", 1)
			return nil
		})
	}},
	{name: "nested Transaction, the inner one stale", run: func(ctx context.Context, db *gorm.DB) error {
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := tx.Create(&gormDoc{Title: "c"}).Error; err != nil {
				return err
			}
			err := tx.Transaction(func(tx *gorm.DB) error {
				tx.Create(&gormDoc{Title: "d"})
				return tx.Model(&gormDoc{ID: 2}).Update("n", 1).Error
			})
			if !errors.Is(err, fencedsql.ErrFenced) {
				return fmt.Errorf("the inner transaction: %w", err)
			}
			return tx.Model(&gormDoc{ID: 1}).Update("n", 1).Error
		})
	}, want: "a|1|live|f6, b|20|live|f7, c|0|live|f6"},
	{name: "no lease", run: func(_ context.Context, db *gorm.DB) error {
		for _, err := range []error{
			db.Model(&gormDoc{ID: 1}).Update("n", 1).Error, db.Create(&gormDoc{Title: "c"}).Error, db.Save(&gormDoc{ID: 1, Title: "x"}).Error, db.Delete(&gormDoc{ID: 1}).Error,
		} {
			if !errors.Is(err, fencedsql.ErrNoLease) {
				return fmt.Errorf("got %w, want ErrNoLease", err)
			}
		}
		return nil
	}, want: docsStart},
}

var gormUpsert = clause.OnConflict{Columns: []clause.Column{{Name: "title"}}, DoUpdates: clause.AssignmentColumns([]string{"n"})}

// createdByGorm checks that gorm knows the keys that the engine gave.
func createdByGorm(ctx context.Context, db *gorm.DB, docs []gormDoc) error {
	if err := counted(int64(len(docs)), db.WithContext(ctx).Create(&docs)); err != nil {
		return err
	}
	for _, d := range docs {
		var stored gormDoc
		if err := db.Where("title = ?", d.Title).Take(&stored).Error; err != nil {
			return err
		}
		if stored.ID != d.ID || d.ID == 0 {
			return fmt.Errorf("%s has key %d, and gorm says %d", d.Title, stored.ID, d.ID)
		}
	}
	return nil
}

// counted checks how many rows gorm says were changed.
func counted(want int64, done *gorm.DB) error {
	if done.Error == nil && done.RowsAffected != want {
		return fmt.Errorf("%d rows, want %d", done.RowsAffected, want)
	}
	return done.Error
}
