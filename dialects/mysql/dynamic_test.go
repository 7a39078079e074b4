package mysql_test

import (
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
	_ "github.com/fencedsql/fencedsql/dialects/mysql"
	"github.com/fencedsql/fencedsql/rewrite"
)

// TestDynamic: a text that is run from another text is refused if it may name a
// fenced table, whatever it is made of.
func TestDynamic(t *testing.T) {
	d, err := dialects.Get("mysql")
	if err != nil {
		t.Fatal(err)
	}
	r, err := rewrite.New(d, []rewrite.Table{{Name: "chats", Fence: "fence", Key: []string{"id"}}})
	if err != nil {
		t.Fatal(err)
	}
	const unread, bare = "a text that cannot be read", "a text that is not fenced"
	for text, reason := range map[string]string{
		"PREPARE p FROM @s":                                          unread,
		"PREPARE p FROM ?":                                           unread,
		"PREPARE p FROM 'UPDATE cha' 'ts SET v = 1'":                 unread,
		"PREPARE p FROM concat('UPDATE cha', 'ts SET v = 1')":        unread,
		"PREPARE p FROM ('UPDATE notes SET v = 1')":                  unread,
		"PREPARE p FROM 0x5550444154452063686174732053455420763D31":  unread,
		"PREPARE p FROM x'5550444154452063686174732053455420763D31'": unread,
		"PREPARE p FROM N'UPDATE notes SET v = 1'":                   unread,
		"PREPARE p FROM _utf8mb4'UPDATE notes SET v = 1'":            unread,
		"prepare/**/p/**/from/**/@s":                                 unread,
		"SELECT 1; PREPARE p FROM @s":                                unread,
		"EXECUTE IMMEDIATE @s":                                       unread,
		"EXECUTE IMMEDIATE concat('UPDATE ', @table, ' SET v = 1')":  unread,

		"PREPARE p FROM 'UPDATE CHATS SET v = 1'":                     bare,
		`PREPARE p FROM 'UPDATE ch\ats SET v = 1'`:                    bare,
		`PREPARE p FROM 'UPDATE\nchats SET v = 1'`:                    bare,
		"PREPARE p FROM 'UPDATE chatſ SET v = 1'":                     bare,
		`PREPARE p FROM "UPDATE ""chats"" SET v = 1"`:                 bare,
		"PREPARE p FROM 'BEGIN NOT ATOMIC EXECUTE IMMEDIATE @s; END'": bare,
		"EXECUTE IMMEDIATE 'UPDATE chats SET v = ?' USING 1":          bare,

		"PREPARE p FROM /*! 'UPDATE notes SET v = 1' */":                "an executable comment",
		"SET STATEMENT max_statement_time = 1 FOR EXECUTE IMMEDIATE @s": "SET STATEMENT hides",
		"BEGIN NOT ATOMIC EXECUTE IMMEDIATE @s; END":                    "BEGIN is not known",
		"IF 1 THEN SELECT 1; ELSE PREPARE p FROM @s; END IF":            "ELSE is not known",
		"CREATE PROCEDURE q() SELECT 1; PREPARE p FROM @s":              "cannot be told apart",

		"PREPARE p FROM 'UPDATE notes SET v = ?'":                       "",
		`PREPARE p FROM 'UPDATE notes SET v = \'it\'\'s\''`:             "",
		`PREPARE p FROM 'UPDATE cha\ts SET v = 1'`:                      "", // a tab
		"PREPARE p FROM 'SELECT ''prepare it from here, immediately'''": "",
		"EXECUTE p USING @chats":                                        "",
		"EXECUTE IMMEDIATE 'UPDATE notes SET v = ?' USING 1":            "",
		"SET @s = 'UPDATE chats SET v = 1'":                             "",
		"CALL prepare_all('prepare it from here', 'execute immediate')": "",
		"INSERT INTO notes (v) VALUES ('PREPARE p FROM @s')":            "",
		"INSERT INTO notes (v) VALUES ('a; PREPARE p FROM @s')":         "",
		"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO EXECUTE IMMEDIATE 1": "", // defined, and not run
	} {
		p := r.Plan(text, 0, nil)
		switch {
		case reason == "" && p.Verdict != rewrite.Pass:
			t.Errorf("%s: %+v", text, p.Refusal)
		case reason != "" && (p.Verdict != rewrite.Refuse || p.Refusal.Table != "chats" || !strings.Contains(p.Refusal.Reason, reason)):
			t.Errorf("%s: %+v %+v", text, p, p.Refusal)
		case reason == unread && p.Refusal.Hint != "write the statement itself, or for administration send it with fencedsql.Unfenced(ctx)":
			t.Errorf("%s: %s", text, p.Refusal.Hint)
		}
	}
}
