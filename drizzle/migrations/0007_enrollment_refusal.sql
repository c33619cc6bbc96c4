CREATE TABLE "enrollment_refusal" (
	"address_key" text NOT NULL,
	"minute_started_at" timestamp (3) with time zone NOT NULL,
	"reason" text NOT NULL,
	"refusals" bigint NOT NULL,
	"last_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "enrollment_refusal_address_key_minute_started_at_reason_pk" PRIMARY KEY("address_key","minute_started_at","reason")
);
--> statement-breakpoint
CREATE INDEX "enrollment_refusal_minute" ON "enrollment_refusal" USING btree ("minute_started_at");