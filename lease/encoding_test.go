package lease

import (
	"database/sql/driver"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestEncode(t *testing.T) {
	const next = "0000000000000000000000000000000000000008"
	big := Fence{1, 7}
	for _, tt := range []struct {
		encoding Encoding
		fence    Fence
		value    driver.Value // nil: does not fit
		bound    driver.Value // nil: does not fit
	}{
		{Text, Fence{}, strings.Repeat("0", 40), strings.Repeat("0", 39) + "1"},
		{Text, Fence{0, 7}, Fence{0, 7}.Text(), next},
		{Text, Fence{0, math.MaxUint64}, Fence{0, math.MaxUint64}.Text(), Fence{1, 0}.Text()},
		{Text, big, big.Text(), Fence{1, 8}.Text()},
		{Text, maxFence, "0" + maxUint128, nil},
		{Int64, Fence{}, int64(0), int64(1)},
		{Int64, Fence{0, 7}, int64(7), int64(8)},
		{Int64, Fence{0, math.MaxInt64 - 1}, int64(math.MaxInt64 - 1), int64(math.MaxInt64)},
		{Int64, Fence{0, math.MaxInt64}, int64(math.MaxInt64), nil},
		{Int64, Fence{0, math.MaxInt64 + 1}, nil, nil},
		{Int64, Fence{0, math.MaxUint64}, nil, nil},
		{Int64, Fence{1, 0}, nil, nil},
		{Int64, maxFence, nil, nil},
	} {
		check := func(method string, got driver.Value, err error, want driver.Value) {
			t.Helper()
			if want == nil {
				if got != nil || !errors.Is(err, ErrOverflow) || !strings.Contains(err.Error(), tt.fence.String()) {
					t.Errorf("%v.%s(%v) = %v, %v; want ErrOverflow naming the fence", tt.encoding, method, tt.fence, got, err)
				} else if tt.encoding == Int64 && !strings.Contains(err.Error(), "encoding int64") {
					t.Errorf("%v.%s(%v): error %q should name the encoding", tt.encoding, method, tt.fence, err)
				}
				return
			}
			if got != want || err != nil || !driver.IsValue(got) {
				t.Errorf("%v.%s(%v) = %v, %v; want %v", tt.encoding, method, tt.fence, got, err, want)
			}
		}
		value, err := tt.encoding.Encode(tt.fence)
		check("Encode", value, err, tt.value)
		bound, err := tt.encoding.Bound(tt.fence)
		check("Bound", bound, err, tt.bound)

		if tt.value != nil {
			if got, err := tt.encoding.Decode(value); got != tt.fence || err != nil {
				t.Errorf("%v.Decode(%v) = %v, %v; want %v", tt.encoding, value, got, err, tt.fence)
			}
		}
	}
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		encoding Encoding
		value    any
		want     Fence
		ok       bool
	}{
		{Text, "", Fence{}, true},
		{Text, []byte{}, Fence{}, true},
		{Text, "0", Fence{}, true},
		{Text, Fence{1, 7}.Text(), Fence{1, 7}, true},
		{Text, []byte(Fence{1, 7}.Text()), Fence{1, 7}, true},
		{Text, int64(7), Fence{0, 7}, true},
		{Int64, int64(7), Fence{0, 7}, true},
		{Int64, []byte("7"), Fence{0, 7}, true},
		{Int64, "7", Fence{0, 7}, true},
		{Int64, uint64(7), Fence{0, 7}, true},

		{Text, []byte(nil), Fence{}, false},
		{Text, nil, Fence{}, false},
		{Text, " ", Fence{}, false},
		{Text, "-1", Fence{}, false},
		{Text, int64(-1), Fence{}, false},
		{Text, 7.0, Fence{}, false},
		{Int64, nil, Fence{}, false},
		{Int64, "", Fence{}, false},
		{Int64, []byte{}, Fence{}, false},
		{Int64, int64(math.MinInt64), Fence{}, false},
		{Int64, 7.0, Fence{}, false},
		{Encoding(9), "7", Fence{}, false},
	} {
		if got, err := tt.encoding.Decode(tt.value); got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%v.Decode(%#v) = %v, %v; want %v, ok %t", tt.encoding, tt.value, got, err, tt.want, tt.ok)
		}
	}
}

func TestEncodingNames(t *testing.T) {
	for e, want := range map[Encoding]string{Text: "text", Int64: "int64", 9: "Encoding(9)"} {
		if got := e.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
	var zero Encoding
	if zero != Text {
		t.Error("the zero Encoding is not Text")
	}
	for _, call := range []func(Fence) (driver.Value, error){Encoding(9).Encode, Encoding(9).Bound} {
		if v, err := call(Fence{0, 7}); v != nil || err == nil || !strings.Contains(err.Error(), "unknown encoding 9") {
			t.Errorf("an unknown encoding gives %v, %v", v, err)
		}
	}
}
