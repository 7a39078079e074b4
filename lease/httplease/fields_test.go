package httplease

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fencedsql/fencedsql/lease"
)

// keys are awkward in a header field; the fuzz test begins with them.
var keys = []string{
	"chat/42", "", " ", "  a  ", "\t", "\x00", "\r\n", "a\r\nLease-Fence: 9", "a\r\n\r\nGET / HTTP/1.1\r\n", "%", "%41", "%%25", "a,b", ",",
	`"quoted" \ ; = ( ) < > @ : [ ] ? { }`, "~!#$&'*+-.^_`|", "a+b c", "żółw", "数据/1", "\u2028", "\ufeff", "😀", "\x7f", "\u0080", "é", "e\u0301",
	strings.Repeat("k", maxKey), strings.Repeat("\x00", maxKey), strings.Repeat("é", maxKey/2),
}

func TestEncode(t *testing.T) {
	for key, want := range map[string]string{
		"chat/42":          "chat/42",
		"":                 "",
		" a b ":            "%20a%20b%20",
		"a\r\nb":           "a%0D%0Ab",
		"100%":             "100%25",
		"a,b":              "a%2Cb",
		"\x00\x7f":         "%00%7F",
		"é":                "%C3%A9",
		`!"#$&'()*+-./:;<`: `!"#$&'()*+-./:;<`,
	} {
		if got := encode(key); got != want {
			t.Errorf("encode(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestDecode(t *testing.T) {
	for value, want := range map[string]string{
		"chat/42":                             "chat/42",
		"chat%2F42":                           "chat/42", // as most encoders write it
		"%c3%a9":                              "é",
		"%C3%a9":                              "é",
		"%2525":                               "%25",
		"a+b":                                 "a+b",
		"%61%00%20%0d,":                       "-",
		"a,b":                                 "-",
		"a, b":                                "-",
		"a b":                                 "-",
		" a":                                  "-",
		"a\t":                                 "-",
		"é":                                   "-",
		"a\x00":                               "-",
		"a\x7f":                               "-",
		"%":                                   "-",
		"%4":                                  "-",
		"%4g":                                 "-",
		"%%":                                  "-",
		"%u0041":                              "-",
		"%ff":                                 "-", // not UTF-8
		"%C3":                                 "-",
		"%ED%A0%80":                           "-", // half of a surrogate pair
		"%C0%80":                              "-", // NUL in two bytes
		strings.Repeat("k", maxKey+1):         "-",
		strings.Repeat("%6B", maxKey) + "%6B": "-",
		strings.Repeat("%6B", maxKey):         strings.Repeat("k", maxKey),
	} {
		got, ok := decode(value)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("decode(%q) = %q, want %q", value, got, want)
		}
	}
}

// FuzzKey: every key comes out of the bytes of a request as it went in, and adds no field to it.
func FuzzKey(f *testing.F) {
	for _, key := range keys {
		f.Add(key, uint64(1), uint64(0))
		f.Add(key, uint64(0), uint64(1))
	}
	f.Add("k", ^uint64(0), ^uint64(0))
	f.Add("\xff", uint64(0), uint64(7))
	f.Add(strings.Repeat("k", maxKey+1), uint64(0), uint64(7))
	f.Fuzz(func(t *testing.T, key string, epoch, count uint64) {
		l := lease.New(key, lease.Fence{Epoch: epoch, Count: count})
		value, fence, err := fields(l)
		if l.Fence().IsZero() {
			if value != "" || fence != "" || err != nil {
				t.Fatalf("without a fence: %q, %q, %v", value, fence, err)
			}
			return
		}
		if fit := utf8.ValidString(key) && len(key) <= maxKey; fit != (err == nil) {
			t.Fatalf("key %q: %v", key, err)
		}
		if err != nil {
			return
		}
		req, err := http.NewRequest("GET", "http://service.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(KeyHeader, value)
		req.Header.Set(FenceHeader, fence)
		var wire bytes.Buffer
		if err := req.Write(&wire); err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Header) != 3 { // and User-Agent
			t.Errorf("the header is %v", got.Header)
		}
		read, err := read(got.Header)
		if err != nil || read.Key() != key || read.Fence() != l.Fence() {
			t.Errorf("sent %q %v, got %q %v, %v", key, l.Fence(), read.Key(), read.Fence(), err)
		}
	})
}

// FuzzRead: whatever a request holds is refused, or is a lease that can be sent on and stays the same.
func FuzzRead(f *testing.F) {
	for _, key := range keys {
		f.Add(key, "7")
		f.Add(encode(key), "7")
	}
	for _, fence := range fences {
		f.Add("k", fence)
	}
	f.Fuzz(func(t *testing.T, key, fence string) {
		l, err := read(http.Header{KeyHeader: {key}, FenceHeader: {fence}})
		if err != nil {
			if l != nil {
				t.Errorf("a lease %q %v beside the error %v", l.Key(), l.Fence(), err)
			}
			return
		}
		if l.Fence().IsZero() {
			t.Error("a lease without a fence")
		}
		value, number, err := fields(l)
		if err != nil {
			t.Fatal(err)
		}
		again, err := read(http.Header{KeyHeader: {value}, FenceHeader: {number}})
		if err != nil || again.Key() != l.Key() || again.Fence() != l.Fence() {
			t.Errorf("%q %q: %q %v, then %q %v, %v", key, fence, l.Key(), l.Fence(), again.Key(), again.Fence(), err)
		}
	})
}
