package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// maxDepth is more than any body of the contract needs, and less than what a
// stack minds.
const maxDepth = 16

// decodeJSON returns the one value in text, and {} for no text at all. It is
// stricter than encoding/json where two readers could understand the same text
// in two ways: nothing may follow the value, no field may be there twice, and
// what is not UTF-8 is not repaired.
func decodeJSON(text []byte) (any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return map[string]any{}, nil
	}
	if !utf8.Valid(text) {
		return nil, service.Invalid("", "the body is not UTF-8")
	}
	d := strictDecoder{jsontext.NewDecoder(bytes.NewBuffer(text))}
	value, err := d.value()
	if err != nil {
		return nil, asInvalid(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, service.Invalid("", "something follows the JSON value of the body")
	}
	return value, nil
}

// asInvalid says what is wrong with the JSON, unless that is said already.
func asInvalid(err error) error {
	if known := (*service.Error)(nil); errors.As(err, &known) {
		return err
	}
	if fault := (*jsontext.SyntacticError)(nil); errors.As(err, &fault) && errors.Is(err, jsontext.ErrDuplicateName) {
		return service.Invalid(fieldPath(slices.Collect(fault.JSONPointer.Tokens())), "is given twice")
	}
	return &service.Error{Kind: service.KindInvalidArgument, Detail: "the body is not JSON", Err: err}
}

type strictDecoder struct {
	*jsontext.Decoder
}

// value decodes what comes next.
func (d strictDecoder) value() (any, error) {
	if d.StackDepth() > maxDepth {
		return nil, service.Invalid("", "the body is nested too deeply")
	}
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return token.String(), nil
	case '0':
		return d.whole(json.Number(token.String()))
	case 't', 'f':
		return token.Bool(), nil
	}
	return nil, nil
}

func (d strictDecoder) object() (any, error) {
	object := map[string]any{}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := token.String()
		if object[key], err = d.value(); err != nil {
			return nil, err
		}
	}
	_, err := d.ReadToken()
	return object, err
}

func (d strictDecoder) array() (any, error) {
	array := []any{}
	for d.PeekKind() != ']' {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	_, err := d.ReadToken()
	return array, err
}

// whole writes 1e3 and 1.0, which JSON Schema takes for integers, as Go's
// integers are written.
func (d strictDecoder) whole(n json.Number) (any, error) {
	if _, err := n.Int64(); err == nil {
		return n, nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, service.Invalid(fieldPath(slices.Collect(d.StackPointer().Tokens())), "is out of range")
	}
	if f == math.Trunc(f) && math.Abs(f) <= float64(service.MaxFence) {
		return json.Number(strconv.FormatInt(int64(f), 10)), nil
	}
	return n, nil
}
