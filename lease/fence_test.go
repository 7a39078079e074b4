package lease

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
)

const (
	maxUint64  = "18446744073709551615"
	twoTo64    = "18446744073709551616"
	maxUint128 = "340282366920938463463374607431768211455"
	twoTo128   = "340282366920938463463374607431768211456"
)

var (
	_ fmt.Formatter    = Fence{}
	_ fmt.Stringer     = Fence{}
	_ driver.Valuer    = Fence{}
	_ json.Marshaler   = Fence{}
	_ json.Unmarshaler = (*Fence)(nil)
	_ sql.Scanner      = (*Fence)(nil)
)

var maxFence = Fence{math.MaxUint64, math.MaxUint64}

// edges are fences with their decimal text, in order.
var edges = []struct {
	fence Fence
	text  string
}{
	{Fence{}, "0"},
	{Fence{0, 1}, "1"},
	{Fence{0, 9}, "9"},
	{Fence{0, 10}, "10"},
	{Fence{0, math.MaxInt64}, "9223372036854775807"},
	{Fence{0, math.MaxInt64 + 1}, "9223372036854775808"},
	{Fence{0, 1e19 - 1}, "9999999999999999999"},
	{Fence{0, 1e19}, "10000000000000000000"},
	{Fence{0, math.MaxUint64}, maxUint64},
	{Fence{1, 0}, twoTo64},
	{Fence{1, 7}, "18446744073709551623"},
	{Fence{5421010862427522170, 687399551400673279}, strings.Repeat("9", 38)},
	{Fence{5421010862427522170, 687399551400673280}, "1" + strings.Repeat("0", 38)},
	{Fence{math.MaxUint64, 0}, "340282366920938463444927863358058659840"},
	{maxFence, maxUint128},
}

func TestTextForms(t *testing.T) {
	for _, e := range edges {
		if got := e.fence.String(); got != e.text {
			t.Errorf("%#v: String() = %s, want %s", e.fence, got, e.text)
		}
		padded := strings.Repeat("0", 40-len(e.text)) + e.text
		if got := e.fence.Text(); got != padded {
			t.Errorf("%#v: Text() = %s, want %s", e.fence, got, padded)
		}
		for _, s := range []string{e.text, padded, "0" + e.text} {
			if got, err := ParseFence(s); got != e.fence || err != nil {
				t.Errorf("ParseFence(%q) = %#v, %v; want %#v", s, got, err, e.fence)
			}
		}
		if got, err := e.fence.AppendText([]byte("fence=")); string(got) != "fence="+e.text || err != nil {
			t.Errorf("%#v: AppendText = %q, %v", e.fence, got, err)
		}
	}
}

func TestOrder(t *testing.T) {
	for i, a := range edges {
		for j, b := range edges {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := a.fence.Compare(b.fence); got != want {
				t.Errorf("%v.Compare(%v) = %d, want %d", a.fence, b.fence, got, want)
			}
			if got := a.fence.Less(b.fence); got != (want < 0) {
				t.Errorf("%v.Less(%v) = %t", a.fence, b.fence, got)
			}
			if got := strings.Compare(a.fence.Text(), b.fence.Text()); got != want {
				t.Errorf("texts of %v and %v compare as %d, want %d", a.fence, b.fence, got, want)
			}
		}
		if got := a.fence.IsZero(); got != (i == 0) {
			t.Errorf("%v.IsZero() = %t", a.fence, got)
		}
	}
}

func TestNext(t *testing.T) {
	for _, tt := range []struct{ fence, want Fence }{
		{Fence{}, Fence{0, 1}},
		{Fence{0, math.MaxInt64}, Fence{0, math.MaxInt64 + 1}},
		{Fence{0, math.MaxUint64}, Fence{1, 0}},
		{Fence{1, math.MaxUint64}, Fence{2, 0}},
		{Fence{math.MaxUint64, math.MaxUint64 - 1}, maxFence},
	} {
		if got, err := tt.fence.Next(); got != tt.want || err != nil {
			t.Errorf("%v.Next() = %v, %v; want %v", tt.fence, got, err, tt.want)
		}
	}
	if got, err := maxFence.Next(); !got.IsZero() || !errors.Is(err, ErrOverflow) || !strings.Contains(err.Error(), maxUint128) {
		t.Errorf("Next after the last = %v, %v; want ErrOverflow naming the fence", got, err)
	}
}

func TestParseFenceRefuses(t *testing.T) {
	for _, s := range []string{
		"", "-1", "+1", " 1", "1 ", "1\n", "1e3", "0x1", "1_000", "1.0", "1,000", "NaN", "\x00", "1\x00",
		"٣", "１", "1\xff", twoTo128, "1" + twoTo128[1:] + "0", strings.Repeat("9", 40), strings.Repeat("9", 60),
		strings.Repeat("0", 41), strings.Repeat("x", 1000),
	} {
		f, err := ParseFence(s)
		if err == nil || !f.IsZero() {
			t.Errorf("ParseFence(%q) = %v, %v; want an error", s, f, err)
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, quote(s)) || len(msg) > 200 {
			t.Errorf("ParseFence(%q): error %q should quote the text, in bounds", s, msg)
		}
		_, isNumber := new(big.Int).SetString(s, 10)
		tooLarge := isNumber && len(s) <= 40 && s[0] >= '0' && s[0] <= '9' && !strings.Contains(s, "_")
		if got := errors.Is(err, ErrOverflow); got != tooLarge {
			t.Errorf("ParseFence(%q): errors.Is(%q, ErrOverflow) = %t", s, err, got)
		}
	}
}

func TestFormat(t *testing.T) {
	padded := func(s string) string { return strings.Repeat("0", 40-len(s)) + s }
	seven, big := Fence{0, 7}, Fence{1, 7}
	for _, tt := range []struct {
		format string
		fence  Fence
		want   string
	}{
		{"%d", big, "18446744073709551623"},
		{"%s", big, "18446744073709551623"},
		{"%v", big, "18446744073709551623"},
		{"%v", Fence{}, "0"},
		{"%v", maxFence, maxUint128},
		{"%+v", seven, "7"},
		{"%#v", big, "lease.Fence{Epoch:0x1, Count:0x7}"},
		{"%q", big, `"18446744073709551623"`},

		{"%040s", seven, padded("7")},
		{"%040d", seven, padded("7")},
		{"%040v", big, padded("18446744073709551623")},
		{"%040s", maxFence, "0" + maxUint128},
		{"%.40s", seven, padded("7")},
		{"%.3d", seven, "007"},
		{"%.1d", big, "18446744073709551623"},
		{"%6.3d", seven, "   007"},
		{"%-6.3d|", seven, "007   |"},
		{"%06.3d", seven, "   007"},
		{"%03d", Fence{0, 1234}, "1234"},

		{"%4d", seven, "   7"},
		{"%4s", seven, "   7"},
		{"%-4d|", seven, "7   |"},
		{"%-4s|", seven, "7   |"},
		{"%-04d|", seven, "7   |"},
		{"%5q", seven, `  "7"`},
		{"%05q", seven, `  "7"`},
		{"%-5q|", seven, `"7"  |`},
		{"%+d", seven, "+7"},
		{"%+05d", seven, "+0007"},
		{"%+5d", seven, "   +7"},
		{"% d", seven, " 7"},
		{"%+s", seven, "7"},

		{"%x", Fence{0, 0xabc}, "abc"},
		{"%X", Fence{0, 0xabc}, "ABC"},
		{"%#x", Fence{0, 0xabc}, "0xabc"},
		{"%#X", Fence{0, 0xabc}, "0XABC"},
		{"%x", Fence{0xa, 0xb}, "a000000000000000b"},
		{"%x", maxFence, strings.Repeat("f", 32)},
		{"%032x", Fence{0xa, 0xb}, "000000000000000a000000000000000b"},
		{"%8x", Fence{0, 0xabc}, "     abc"},

		{"%z", seven, "%!z(lease.Fence=7)"},
		{"%f", seven, "%!f(lease.Fence=7)"},
		{"%t", big, "%!t(lease.Fence=18446744073709551623)"},
	} {
		if got := fmt.Sprintf(tt.format, tt.fence); got != tt.want {
			t.Errorf("Sprintf(%q, %#v) = %q, want %q", tt.format, tt.fence, got, tt.want)
		}
	}
	if got := fmt.Sprint(&seven, struct{ F Fence }{big}); got != "7 {18446744073709551623}" {
		t.Errorf("within other values: %s", got)
	}
}

// TestFormatLikeIntegers holds Format to what package fmt does with the same number as a uint64.
func TestFormatLikeIntegers(t *testing.T) {
	for _, verb := range []string{"d", "x", "X", "v"} {
		for _, flags := range []string{"", "0", "-", "+", " ", "-0", "+0", "+-", " 0"} {
			if verb == "v" && strings.ContainsAny(flags, "+ ") {
				continue // %+v is more detail, not a sign
			}
			for _, size := range []string{"", "1", "5", "40", ".3", "7.3"} {
				format := "%" + flags + size + verb
				if strings.HasSuffix(flags, "0") && strings.HasPrefix(size, ".") {
					continue // "0.3"
				}
				for _, n := range []uint64{0, 7, 123456, math.MaxUint64} {
					if got, want := fmt.Sprintf(format, Fence{Count: n}), fmt.Sprintf(format, n); got != want {
						t.Errorf("Sprintf(%q, %d) = %q, want %q", format, n, got, want)
					}
				}
			}
		}
	}
}

func TestMarshalling(t *testing.T) {
	type doc struct {
		F Fence           `json:"f"`
		P *Fence          `json:"p"`
		M map[Fence]Fence `json:"m"`
	}
	in := doc{F: Fence{1, 7}, P: &maxFence, M: map[Fence]Fence{{0, 2}: {0, 3}}}
	const wire = `{"f":"18446744073709551623","p":"` + maxUint128 + `","m":{"2":"3"}}`
	data, err := json.Marshal(in)
	if string(data) != wire || err != nil {
		t.Fatalf("Marshal = %s, %v; want %s", data, err, wire)
	}
	var out doc
	if err := json.Unmarshal(data, &out); err != nil || out.F != in.F || *out.P != *in.P || out.M[Fence{0, 2}] != (Fence{0, 3}) {
		t.Fatalf("Unmarshal = %+v, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"f":null,"p":null}`), &out); err != nil || out.F != in.F || out.P != nil {
		t.Errorf("null should leave a value and clear a pointer: %+v, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"f":"\u0037"}`), &out); err != nil || out.F != (Fence{0, 7}) {
		t.Errorf("an escaped digit is a digit: %v, %v", out.F, err)
	}

	for data, want := range map[string]string{
		`{"f":7}`:                  "quotes",
		`{"f":1e3}`:                "quotes",
		`{"f":true}`:               "not a JSON string",
		`{"f":{}}`:                 "not a JSON string",
		`{"f":""}`:                 "empty",
		`{"f":"-1"}`:               `"-1"`,
		`{"f":"` + twoTo128 + `"}`: twoTo128,
		`{"m":{"x":"1"}}`:          `"x"`,
	} {
		f := doc{F: Fence{0, 5}}
		if err := json.Unmarshal([]byte(data), &f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Unmarshal(%s): error %v should contain %s", data, err, want)
		}
		if f.F != (Fence{0, 5}) {
			t.Errorf("Unmarshal(%s) changed the fence to %v", data, f.F)
		}
	}

	text, err := Fence{1, 7}.MarshalText()
	if string(text) != "18446744073709551623" || err != nil {
		t.Errorf("MarshalText = %q, %v", text, err)
	}
	f := Fence{0, 5}
	if err := f.UnmarshalText(text); err != nil || f != (Fence{1, 7}) {
		t.Errorf("UnmarshalText = %v, %v", f, err)
	}
	if err := f.UnmarshalText([]byte("x")); err == nil || f != (Fence{1, 7}) {
		t.Errorf("UnmarshalText of x = %v, %v; want an error and the fence as it was", f, err)
	}
}

func TestValueAndScan(t *testing.T) {
	for _, e := range edges {
		v, err := e.fence.Value()
		if v != e.fence.Text() || err != nil || !driver.IsValue(v) {
			t.Errorf("%v.Value() = %v, %v", e.fence, v, err)
		}
		var f Fence
		if err := f.Scan(v); err != nil || f != e.fence {
			t.Errorf("Scan(%v) = %v, %v", v, f, err)
		}
	}
	for _, tt := range []struct {
		src  any
		want Fence
	}{
		{"7", Fence{0, 7}},
		{"0007", Fence{0, 7}},
		{[]byte(twoTo64), Fence{1, 0}},
		{int64(0), Fence{}},
		{int64(math.MaxInt64), Fence{0, math.MaxInt64}},
		{uint64(math.MaxUint64), Fence{0, math.MaxUint64}},
	} {
		f := Fence{9, 9}
		if err := f.Scan(tt.src); err != nil || f != tt.want {
			t.Errorf("Scan(%#v) = %v, %v; want %v", tt.src, f, err, tt.want)
		}
	}
	for _, src := range []any{nil, "", []byte{}, []byte(nil), "x", strings.Repeat("0", 41), int64(-1), 1.0, true, Fence{}} {
		f := Fence{9, 9}
		if err := f.Scan(src); err == nil || f != (Fence{9, 9}) {
			t.Errorf("Scan(%#v) = %v, %v; want an error and the fence as it was", src, f, err)
		}
	}
}

func TestTextAllocatesOnce(t *testing.T) {
	var s string
	if n := testing.AllocsPerRun(100, func() { s = maxFence.Text() }); n > 1 {
		t.Errorf("Text allocates %v times for %s", n, s)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = ParseFence(s) }); n > 0 {
		t.Errorf("ParseFence allocates %v times", n)
	}
}

func bigFence(f Fence) *big.Int {
	n := new(big.Int).SetUint64(f.Epoch)
	return n.Or(n.Lsh(n, 64), new(big.Int).SetUint64(f.Count))
}

// FuzzTextOrder: texts compare as fences do, and fences as the numbers they stand for.
func FuzzTextOrder(f *testing.F) {
	for _, a := range edges {
		for _, b := range edges {
			f.Add(a.fence.Epoch, a.fence.Count, b.fence.Epoch, b.fence.Count)
		}
	}
	f.Fuzz(func(t *testing.T, epochA, countA, epochB, countB uint64) {
		a, b := Fence{epochA, countA}, Fence{epochB, countB}
		want := bigFence(a).Cmp(bigFence(b))
		if got := a.Compare(b); got != want {
			t.Errorf("%#v.Compare(%#v) = %d, want %d", a, b, got, want)
		}
		if got := strings.Compare(a.Text(), b.Text()); got != want {
			t.Errorf("texts of %#v and %#v compare as %d, want %d", a, b, got, want)
		}
		if next, err := a.Next(); err == nil && (a.Compare(next) >= 0 || (a.Less(b) && b.Less(next))) {
			t.Errorf("%v.Next() = %v is not one more", a, next)
		}
	})
}

// FuzzFormat: every text of a fence is the one math/big gives, and reads back.
func FuzzFormat(f *testing.F) {
	for _, e := range edges {
		f.Add(e.fence.Epoch, e.fence.Count)
	}
	f.Fuzz(func(t *testing.T, epoch, count uint64) {
		f := Fence{epoch, count}
		n := bigFence(f)
		for _, tt := range []struct{ got, want string }{
			{f.String(), n.String()},
			{f.Text(), fmt.Sprintf("%040d", n)},
			{fmt.Sprintf("%x", f), n.Text(16)},
		} {
			if tt.got != tt.want {
				t.Errorf("%#v: %s, want %s", f, tt.got, tt.want)
			}
		}
		for _, s := range []string{f.String(), f.Text()} {
			if got, err := ParseFence(s); got != f || err != nil {
				t.Errorf("ParseFence(%q) = %v, %v", s, got, err)
			}
		}
	})
}

// FuzzParseFence: what ParseFence accepts is what a pedantic reader with math/big does.
func FuzzParseFence(f *testing.F) {
	for _, e := range edges {
		f.Add([]byte(e.text))
		f.Add([]byte(e.fence.Text()))
	}
	for _, s := range []string{"", "-1", "+1", " 1", "1_0", "0x1", "٣", twoTo128, strings.Repeat("0", 41), strings.Repeat("9", 60)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseFence(string(text))
		n := new(big.Int)
		valid := len(text) > 0 && len(text) <= 40 && len(bytes.Trim(text, "0123456789")) == 0 &&
			!slices.ContainsFunc(text, func(c byte) bool { return c < '0' || c > '9' })
		if valid {
			n.SetString(string(text), 10)
			valid = n.BitLen() <= 128
		}
		if valid != (err == nil) || (valid && bigFence(got).Cmp(n) != 0) {
			t.Errorf("ParseFence(%q) = %v, %v; math/big says %v, valid %t", text, got, err, n, valid)
		}
	})
}

func BenchmarkText(b *testing.B) {
	for b.Loop() {
		_ = maxFence.Text()
	}
}
