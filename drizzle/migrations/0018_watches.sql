CREATE TABLE "watch" (
	"id" uuid PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"filter" text NOT NULL,
	"more_than" integer NOT NULL,
	"for_seconds" integer NOT NULL,
	"receivers" text[] NOT NULL,
	"revision" integer NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"created_by" uuid NOT NULL,
	"created_by_name" text NOT NULL,
	"silenced_until" timestamp (3) with time zone,
	"silenced_by" text,
	"silence_reason" text,
	"is_firing" boolean NOT NULL,
	"changed_at" timestamp (3) with time zone NOT NULL,
	"firing_since" timestamp (3) with time zone,
	"contrary_since" timestamp (3) with time zone,
	"contrary_ms" bigint NOT NULL,
	"announced_count" integer,
	"count" integer,
	"evaluated_at" timestamp (3) with time zone,
	"fault" text,
	"common_factor" text,
	"explained_by" uuid,
	CONSTRAINT "watch_name" UNIQUE("name")
);
--> statement-breakpoint
CREATE TABLE "watch_event" (
	"position" bigserial PRIMARY KEY NOT NULL,
	"watch_id" uuid NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"kind" text NOT NULL,
	"count" integer,
	"receiver" text,
	"detail" text
);
--> statement-breakpoint
CREATE TABLE "watch_message" (
	"id" uuid PRIMARY KEY NOT NULL,
	"position" bigserial NOT NULL,
	"watch_id" uuid NOT NULL,
	"receiver" text NOT NULL,
	"body" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"attempts" integer NOT NULL,
	"failures" integer NOT NULL,
	"next_attempt_at" timestamp (3) with time zone NOT NULL,
	"leased_until" timestamp (3) with time zone,
	"delivered_at" timestamp (3) with time zone,
	"last_error" text
);
--> statement-breakpoint
ALTER TABLE "watch_event" ADD CONSTRAINT "watch_event_watch_id_watch_id_fk" FOREIGN KEY ("watch_id") REFERENCES "public"."watch"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "watch_event_watch" ON "watch_event" USING btree ("watch_id","position");--> statement-breakpoint
CREATE INDEX "watch_event_at" ON "watch_event" USING btree ("at");--> statement-breakpoint
CREATE INDEX "watch_message_order" ON "watch_message" USING btree ("watch_id","receiver","position");