CREATE TABLE "completeness_chunk" (
	"statement_id" uuid NOT NULL,
	"first_line" integer NOT NULL,
	"raw_bytes" integer NOT NULL,
	"lines" "bytea" NOT NULL,
	CONSTRAINT "completeness_chunk_statement_id_first_line_pk" PRIMARY KEY("statement_id","first_line")
);
--> statement-breakpoint
CREATE TABLE "completeness_head" (
	"size" bigint PRIMARY KEY NOT NULL,
	"root" "bytea" NOT NULL,
	"note" text
);
--> statement-breakpoint
CREATE TABLE "completeness_log" (
	"index" bigint PRIMARY KEY NOT NULL,
	"entry" text NOT NULL,
	"hash" "bytea" NOT NULL
);
--> statement-breakpoint
CREATE TABLE "completeness_statement" (
	"hour" timestamp (3) with time zone PRIMARY KEY NOT NULL,
	"id" uuid NOT NULL,
	"lines" integer NOT NULL,
	"root" "bytea" NOT NULL,
	"entry_index" bigint NOT NULL,
	"received_before" timestamp (3) with time zone NOT NULL,
	"seen_below" bigint NOT NULL,
	"delivered_below" bigint,
	"written_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "completeness_statement_id" UNIQUE("id"),
	CONSTRAINT "completeness_statement_entry" UNIQUE("entry_index")
);
--> statement-breakpoint
CREATE TABLE "completeness_writer" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"owner" uuid NOT NULL,
	"until" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "completeness_writer_singleton" CHECK ("completeness_writer"."singleton")
);
--> statement-breakpoint
CREATE INDEX "ingest_account_xid" ON "ingest_account" USING btree ("xid");