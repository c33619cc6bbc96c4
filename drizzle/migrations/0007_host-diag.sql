CREATE TABLE "host_diag" (
	"id" uuid PRIMARY KEY NOT NULL,
	"identity_id" uuid NOT NULL,
	"requested_at" timestamp (3) with time zone NOT NULL,
	"requested_by" uuid NOT NULL,
	"answer_by" timestamp (3) with time zone NOT NULL,
	"answered_at" timestamp (3) with time zone,
	"bundle" text,
	"refusal" text
);
--> statement-breakpoint
ALTER TABLE "host_diag" ADD CONSTRAINT "host_diag_identity_id_collector_identity_id_fk" FOREIGN KEY ("identity_id") REFERENCES "public"."collector_identity"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "host_diag_open" ON "host_diag" USING btree ("identity_id") WHERE "host_diag"."answered_at" is null;--> statement-breakpoint
CREATE INDEX "host_diag_requested" ON "host_diag" USING btree ("requested_at");