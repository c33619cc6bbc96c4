CREATE TABLE "line_claim" (
	"id" uuid PRIMARY KEY NOT NULL,
	"key" text NOT NULL,
	"taken_at" timestamp (3) with time zone NOT NULL,
	"taken_by" text NOT NULL,
	"note" text,
	"gone_since" timestamp (3) with time zone,
	CONSTRAINT "line_claim_key" UNIQUE("key")
);
