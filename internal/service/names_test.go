package service_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-lock/holdfast/internal/service"
)

func TestParseName(t *testing.T) {
	for _, s := range []string{
		"a", "_", "0", "Deploy", "flow-17:node-4", "a.b_c:d@e~f-g", "A" + strings.Repeat("x", 199),
	} {
		if got, err := service.ParseName("mutex", s); err != nil || string(got) != s {
			t.Errorf("%q: got %q, %v; want it as it is", s, got, err)
		}
	}
	for _, s := range []string{
		"", ".", "..", ":a", "-a", "~a", "@a", "a/b", "a b", "a\x00", "a\n", "ä", "a%2Fb", "{a}", strings.Repeat("x", 201),
	} {
		isInvalid(t, s, "mutex", second(service.ParseName("mutex", s)))
	}
}

func TestParseContenderID(t *testing.T) {
	for _, s := range []string{"a", " ", "Zoë on host-1", strings.Repeat("ä", 200)} {
		if got, err := service.ParseContenderID(s); err != nil || string(got) != s {
			t.Errorf("%q: got %q, %v; want it as it is", s, got, err)
		}
	}
	for _, s := range []string{"", "a\n", "a\x00", "\u200b", "\xff", strings.Repeat("a", 201)} {
		isInvalid(t, s, "contender_id", second(service.ParseContenderID(s)))
	}
}

func TestParseToken(t *testing.T) {
	for _, s := range []string{strings.Repeat(" ", 16), strings.Repeat("~", 128), string(service.NewToken())} {
		if got, err := service.ParseToken(s); err != nil || string(got) != s {
			t.Errorf("%q: got %q, %v; want it as it is", s, got, err)
		}
	}
	for _, s := range []string{"", strings.Repeat("a", 15), strings.Repeat("a", 129), strings.Repeat("ä", 16), strings.Repeat("a", 15) + "\x7f", strings.Repeat("a", 15) + "\t"} {
		isInvalid(t, s, "token", second(service.ParseToken(s)))
	}
}

func TestNewTokenIsNewEachTime(t *testing.T) {
	if a, b := service.NewToken(), service.NewToken(); a == b {
		t.Errorf("got %q twice", a)
	}
}

func TestAnonymous(t *testing.T) {
	// printf 0123456789abcdef | sha256sum
	if got, want := service.Anonymous("0123456789abcdef"), service.ContenderID("anon-9f9f5111f7b2"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPartyIsContenderAndToken(t *testing.T) {
	same := service.NewParty("alice", "0123456789abcdef")
	if got := service.NewParty("alice", "0123456789abcdef"); got != same {
		t.Errorf("got %+v, want %+v", got, same)
	}
	for _, other := range []service.Party{
		service.NewParty("bob", "0123456789abcdef"),
		service.NewParty("alice", "0123456789abcdeg"),
		service.NewParty("alice0", "123456789abcdef"), // the border counts
	} {
		if other.Pair == same.Pair {
			t.Errorf("got one pair for %+v and %+v, want two", other, same)
		}
	}
	if strings.Contains(string(same.Pair), "0123456789abcdef") || len(same.Pair) != 64 {
		t.Errorf("got pair %q, want a digest", same.Pair)
	}
	if got, want := service.PartyOf("", "0123456789abcdef").Contender, service.Anonymous("0123456789abcdef"); got != want {
		t.Errorf("got contender %q, want %q", got, want)
	}
}

func isInvalid(t *testing.T, input, field string, err error) {
	t.Helper()
	var e *service.Error
	if !errors.As(err, &e) || e.Kind != service.KindInvalidArgument || e.Field != field || e.Detail == "" {
		t.Errorf("%q: got error %v, want an invalid %s with a detail", input, err, field)
	}
}

func second[T any](_ T, err error) error { return err }
