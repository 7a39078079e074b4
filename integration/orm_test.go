package integration

import (
	"context"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

// TestLibraries: what the libraries above database/sql write is fenced, with
// nothing of theirs changed but the database that they are given.
func TestLibraries(t *testing.T) {
	type J struct {
		ID int64 `bun:",pk"`
		V  string
		N  int
	}
	open := func(t *testing.T) *env { return sqliteEngines[0].open(t) }

	t.Run("sqlx", func(t *testing.T) {
		v := open(t)
		db := sqlx.NewDb(v.db, "sqlite3")
		ctx := v.under(6)
		if _, err := db.NamedExecContext(ctx, "UPDATE j SET v = :v WHERE id = :id", map[string]any{"v": "x", "id": 1}); err != nil {
			t.Error(err)
		}
		_, err := db.NamedExecContext(ctx, "UPDATE j SET v = :v WHERE id = :id", map[string]any{"v": "x", "id": 2})
		v.fenced(err, "j", 6, 7)
		v.want("j", "1|x|10|f6, 2|b|20|f7")
	})
	t.Run("gorm", func(t *testing.T) {
		v := open(t)
		db, err := gorm.Open(sqlite.Dialector{Conn: v.db}, &gorm.Config{Logger: logger.Discard})
		if err != nil {
			t.Fatal(err)
		}
		table := func(ctx context.Context) *gorm.DB { return db.WithContext(ctx).Table("j") }
		ctx := v.under(6)
		if err := table(ctx).Where("id = ?", 1).Updates(map[string]any{"v": "x"}).Error; err != nil {
			t.Error(err)
		}
		if err := table(ctx).Create(&J{ID: 3, V: "c"}).Error; err != nil {
			t.Error(err)
		}
		v.fenced(table(ctx).Where("id = ?", 2).Updates(map[string]any{"v": "x"}).Error, "j", 6, 7)
		v.fenced(table(ctx).Clauses(clause.OnConflict{UpdateAll: true}).Create(&[]J{{ID: 1, V: "y"}, {ID: 2, V: "y"}}).Error, "j", 6, 7)
		v.fenced(table(ctx).Where("1 = 1").Delete(&J{}).Error, "j", 6, 7)
		err = db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			return tx.Table("j").Where("n > ?", 0).Update("v", "x").Error
		})
		v.fenced(err, "j", 6, 7)
		v.want("j", "1|x|10|f6, 2|b|20|f7, 3|c|0|f6")
	})
	t.Run("bun", func(t *testing.T) {
		v := open(t)
		db := bun.NewDB(v.db, sqlitedialect.New())
		ctx := v.under(6)
		if _, err := db.NewUpdate().Table("j").Set("v = ?", "x").Where("id = ?", 1).Exec(ctx); err != nil {
			t.Error(err)
		}
		if _, err := db.NewDelete().Model((*J)(nil)).ModelTableExpr("j AS d").Where("d.n < ?", 15).Exec(ctx); err != nil {
			t.Error(err)
		}
		_, err := db.NewInsert().Model(&J{ID: 2, V: "y"}).ModelTableExpr("j").On("CONFLICT (id) DO UPDATE").Set("v = EXCLUDED.v").Returning("v").Exec(ctx)
		v.fenced(err, "j", 6, 7)
		_, err = db.NewDelete().Model((*J)(nil)).ModelTableExpr("j AS d").Where("1 = 1").Exec(ctx)
		v.fenced(err, "j", 6, 7)
		v.want("j", "2|b|20|f7")
	})
}
