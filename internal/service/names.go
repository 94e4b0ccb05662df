package service

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"unicode"
	"unicode/utf8"
)

// Name is the name of a mutex. It contains no slash, so that everything of one
// mutex is one key range in etcd.
type Name string

// ContenderID is how a contender is known to everyone.
type ContenderID string

// Token is a contender's secret: the proof of ownership, and the identity of
// the acquire request. It never reaches a Store, a log or a metric.
type Token string

// Pair is the SHA-256 of a contender and its token, in hex: the identity of a
// party, as far as a Store is concerned.
type Pair string

// Fence is a fencing token: larger for every later ownership of one mutex,
// and below 2^53, so that it survives a float64.
type Fence int64

// Limits of what a client can choose.
const (
	MaxNameLength      = 200
	MaxContenderLength = 200
	MinTokenLength     = 16
	MaxTokenLength     = 128
	MaxFence           = Fence(1<<53 - 1)
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._:@~-]{0,199}$`)

// ParseName returns s as a Name, or a KindInvalidArgument error on field.
func ParseName(field, s string) (Name, error) {
	if !namePattern.MatchString(s) {
		return "", Invalid(field, "must match "+namePattern.String())
	}
	return Name(s), nil
}

// ParseContenderID returns s as a ContenderID: 1 to 200 printable characters.
func ParseContenderID(s string) (ContenderID, error) {
	n := utf8.RuneCountInString(s)
	if n < 1 || n > MaxContenderLength || !utf8.ValidString(s) {
		return "", Invalid("contender_id", "must have 1 to 200 printable characters")
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return "", Invalid("contender_id", "must have 1 to 200 printable characters")
		}
	}
	return ContenderID(s), nil
}

// ParseToken returns s as a Token: 16 to 128 printable ASCII characters.
func ParseToken(s string) (Token, error) {
	if len(s) < MinTokenLength || len(s) > MaxTokenLength {
		return "", Invalid("token", "must have 16 to 128 printable ASCII characters")
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return "", Invalid("token", "must have 16 to 128 printable ASCII characters")
		}
	}
	return Token(s), nil
}

// NewToken returns a token that nobody can guess.
func NewToken() Token { return Token(rand.Text()) }

// Anonymous returns the contender that a token stands for when the client gave
// no contender_id: "anon-" and 12 hex digits of the token's SHA-256.
func Anonymous(t Token) ContenderID {
	sum := sha256.Sum256([]byte(t))
	return ContenderID("anon-" + hex.EncodeToString(sum[:6]))
}

// Party is who wants or owns a mutex. Two parties are the same when their Pair
// is: one contender with two tokens is two parties.
type Party struct {
	Contender ContenderID
	Pair      Pair
}

// NewParty derives the party of a contender and its token.
func NewParty(c ContenderID, t Token) Party {
	sum := sha256.Sum256([]byte(string(c) + "\x00" + string(t)))
	return Party{Contender: c, Pair: Pair(hex.EncodeToString(sum[:]))}
}
