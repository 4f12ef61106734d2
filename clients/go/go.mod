module github.com/semel-rs/semel/clients/go

go 1.19
