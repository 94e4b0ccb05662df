// Package httpapi puts the domain on HTTP, as the contract in openapi/ says. It
// is the only importer of gin.
//
// A request passes, in this order, the log, the recovery from panics, the
// unescaping of its path, the check against the contract, and one handler:
// decode, one call of the domain, encode. Whatever is refused on the way is an
// error, and only problem.go writes errors.
package httpapi

//go:generate go tool -modfile=../../tools/go.mod oapi-codegen -config ../../openapi/oapi-codegen.yaml ../../openapi/openapi.yaml
