CREATE TABLE "audit_chain" (
	"seq" bigint PRIMARY KEY NOT NULL,
	"event_id" uuid NOT NULL,
	"prev_hash" "bytea" NOT NULL,
	"hash" "bytea" NOT NULL,
	CONSTRAINT "audit_chain_event" UNIQUE("event_id")
);
--> statement-breakpoint
CREATE TABLE "audit_pending" (
	"event_id" uuid PRIMARY KEY NOT NULL
);
