package lease

import (
	"cmp"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"
)

// textDigits is the length of [Fence.Text]. 2^128−1 has 39 digits; one more leaves every text starting with a zero.
const textDigits = 40

// ErrOverflow is what errors.Is finds when a number is too large: a fence above 2^128−1, or one that an [Encoding]
// cannot hold. Nothing was written. A retry gives the same answer.
var ErrOverflow = errors.New("lease: fence too large")

// A Fence is the number of a lease: 128 bits, Epoch<<64 | Count. Each lease of a key has a larger fence than every
// earlier lease of that key. Fences compare only within one source: take those of one table's rows from one lease
// store or lock service.
//
// The zero Fence is the fence of a lease without one, such as a semaphore's.
type Fence struct {
	Epoch uint64 // high 64 bits: grows when the source starts anew, and its counts restart
	Count uint64 // low 64 bits: grows with every lease
}

// ParseFence reads what [Fence.String] and [Fence.Text] write: 1 to 40 ASCII digits and nothing else, no sign, no
// space, at most 2^128−1. The error quotes s; it wraps [ErrOverflow] if s is a number above 2^128−1.
func ParseFence(s string) (Fence, error) {
	switch {
	case s == "":
		return Fence{}, errors.New(`lease: fence "" is empty`)
	case len(s) > textDigits:
		return Fence{}, fmt.Errorf("lease: fence %s is longer than %d digits", quote(s), textDigits)
	}
	var f Fence
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			return Fence{}, fmt.Errorf("lease: fence %s is not a decimal number: only digits 0 to 9", quote(s))
		}
		// f = f*10 + d
		high, count := bits.Mul64(f.Count, 10)
		count, carry := bits.Add64(count, uint64(d), 0)
		over, epoch := bits.Mul64(f.Epoch, 10)
		epoch, carry = bits.Add64(epoch, high, carry)
		if over != 0 || carry != 0 {
			return Fence{}, fmt.Errorf("%w: %s is above 2^128-1", ErrOverflow, quote(s))
		}
		f = Fence{epoch, count}
	}
	return f, nil
}

// quote keeps an error readable when the text is not.
func quote(s string) string {
	const most = 2 * textDigits
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

// Compare returns −1 if f is below g, 0 if they are equal and +1 if f is above g.
func (f Fence) Compare(g Fence) int {
	return cmp.Or(cmp.Compare(f.Epoch, g.Epoch), cmp.Compare(f.Count, g.Count))
}

// Less reports whether f is below g.
func (f Fence) Less(g Fence) bool { return f.Compare(g) < 0 }

// IsZero reports whether f is the zero fence: that of a lease without one.
func (f Fence) IsZero() bool { return f == Fence{} }

// Next returns f + 1. After 2^128−1 there is none: the error wraps [ErrOverflow].
func (f Fence) Next() (Fence, error) {
	count, carry := bits.Add64(f.Count, 1, 0)
	epoch, carry := bits.Add64(f.Epoch, 0, carry)
	if carry != 0 {
		return Fence{}, fmt.Errorf("%w: none follows %v, the last of 128 bits", ErrOverflow, f)
	}
	return Fence{epoch, count}, nil
}

// digits gives f in decimal, zero-padded.
func (f Fence) digits() (d [textDigits]byte) {
	const e19 = 1e19 // the largest power of ten in 64 bits: 40 digits are 2 + 19 + 19
	high, rest := f.Epoch/e19, f.Epoch%e19
	rest, low := bits.Div64(rest, f.Count, e19)
	high, mid := bits.Div64(high, rest, e19)
	for _, part := range []struct {
		to []byte
		n  uint64
	}{{d[:2], high}, {d[2:21], mid}, {d[21:], low}} {
		for i := len(part.to) - 1; i >= 0; i-- {
			part.to[i] = '0' + byte(part.n%10)
			part.n /= 10
		}
	}
	return d
}

// Text returns f as 40 zero-padded decimal digits. Two such texts compare as their fences do, byte by byte, which is
// how a text column orders them.
func (f Fence) Text() string {
	d := f.digits()
	return string(d[:])
}

// String returns f in decimal without padding. Such texts do not compare as numbers: "10" < "9".
func (f Fence) String() string {
	b, _ := f.AppendText(make([]byte, 0, textDigits))
	return string(b)
}

// AppendText appends what [Fence.String] returns. The error is always nil.
func (f Fence) AppendText(b []byte) ([]byte, error) {
	d := f.digits()
	i := 0
	for i < len(d)-1 && d[i] == '0' {
		i++
	}
	return append(b, d[i:]...), nil
}

// MarshalText returns what [Fence.String] does. The error is always nil.
func (f Fence) MarshalText() ([]byte, error) { return f.AppendText(nil) }

// UnmarshalText reads what [ParseFence] does. After an error f is what it was.
func (f *Fence) UnmarshalText(text []byte) error { return f.set(ParseFence(string(text))) }

// MarshalJSON returns the decimal number as a JSON string. As a JSON number it would lose digits above 2^53 in
// JavaScript and in every reader that uses float64.
func (f Fence) MarshalJSON() ([]byte, error) {
	b, _ := f.AppendText([]byte{'"'})
	return append(b, '"'), nil
}

// UnmarshalJSON reads a JSON string that [ParseFence] accepts. It refuses a JSON number, which may have lost digits on
// its way. null leaves f as it is, as does an error.
func (f *Fence) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("lease: fence %s is not a JSON string: send it in quotes, since a JSON number loses digits above 2^53",
			quote(string(data)))
	}
	return f.set(ParseFence(s))
}

// Value gives [Fence.Text] to database/sql. The error is always nil. For a column of another type see [Encoding].
func (f Fence) Value() (driver.Value, error) { return f.Text(), nil }

// Scan reads a fence from a column: text as [ParseFence] reads it, or an integer that is not negative. NULL and
// everything else are errors, and so is a float, which may have lost digits. After an error f is what it was.
func (f *Fence) Scan(src any) error { return f.set(fromColumn(src)) }

// fromColumn is what Scan and Decode have in common.
func fromColumn(src any) (Fence, error) {
	switch v := src.(type) {
	case string:
		return ParseFence(v)
	case []byte:
		return ParseFence(string(v))
	case int64:
		if v < 0 {
			return Fence{}, fmt.Errorf("lease: fence %d is negative", v)
		}
		return Fence{Count: uint64(v)}, nil
	case uint64: // MySQL's BIGINT UNSIGNED
		return Fence{Count: v}, nil
	case nil:
		return Fence{}, errors.New("lease: fence is NULL: declare its column NOT NULL")
	default:
		return Fence{}, fmt.Errorf("lease: fence of type %T: want text or an integer", src)
	}
}

// set stores a result unless it is an error.
func (f *Fence) set(g Fence, err error) error {
	if err == nil {
		*f = g
	}
	return err
}

// Format implements [fmt.Formatter], so that %040s and %040d give [Fence.Text] in every Go version; package fmt has
// changed its mind about padding strings with zeros.
//
//	%d %s %v   decimal
//	%x %X      hexadecimal, with # after 0x
//	%q         decimal in quotes
//	%#v        Go syntax
//
// Width and the flags 0, -, + and space mean what they do for integers; + and space only with %d, %x and %X. So does a
// precision: it is the least number of digits. Digits are never cut off.
func (f Fence) Format(s fmt.State, verb rune) {
	var sign, digits string
	switch verb {
	case 'd', 's':
		digits = f.String()
	case 'v':
		if s.Flag('#') {
			fmt.Fprintf(s, "lease.Fence{Epoch:%#x, Count:%#x}", f.Epoch, f.Count)
			return
		}
		digits = f.String()
	case 'x', 'X':
		digits = strconv.FormatUint(f.Count, 16)
		if f.Epoch != 0 {
			digits = fmt.Sprintf("%x%016x", f.Epoch, f.Count)
		}
	case 'q':
		digits = `"` + f.String() + `"`
	default:
		fmt.Fprintf(s, "%%!%c(lease.Fence=%s)", verb, f.String())
		return
	}
	if verb == 'd' || verb == 'x' || verb == 'X' {
		switch {
		case s.Flag('+'):
			sign = "+"
		case s.Flag(' '):
			sign = " "
		}
		if verb != 'd' && s.Flag('#') {
			sign += "0x"
		}
	}
	width, _ := s.Width()
	least, exact := s.Precision()
	if !exact && s.Flag('0') && !s.Flag('-') {
		least = width - len(sign)
	}
	if verb != 'q' {
		digits = repeat("0", least-len(digits)) + digits
	}
	out, pad := sign+digits, repeat(" ", width-len(sign)-len(digits))
	if verb == 'X' {
		out = strings.ToUpper(out)
	}
	if s.Flag('-') {
		out, pad = pad, out
	}
	io.WriteString(s, pad+out)
}

// repeat is strings.Repeat for a count that may be negative.
func repeat(s string, n int) string { return strings.Repeat(s, max(n, 0)) }
