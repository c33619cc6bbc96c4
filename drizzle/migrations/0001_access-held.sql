CREATE TABLE "refusal_count" (
	"action" text NOT NULL,
	"address_key" text NOT NULL,
	"minute_started_at" timestamp (3) with time zone NOT NULL,
	"reason_code" text NOT NULL,
	"target_id" text NOT NULL,
	"target_type" text NOT NULL,
	"refusals" bigint NOT NULL,
	"last_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "refusal_count_pk" PRIMARY KEY("action","minute_started_at","address_key","reason_code","target_id")
);
--> statement-breakpoint
CREATE TABLE "database_lineage" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"epoch" integer NOT NULL,
	"written_xid" bigint NOT NULL,
	"system_identifier" text,
	"database_oid" text NOT NULL,
	"timeline" integer,
	"restored_at" timestamp (3) with time zone,
	"reason" text,
	CONSTRAINT "database_lineage_singleton" CHECK ("database_lineage"."singleton")
);
--> statement-breakpoint
CREATE TABLE "scim_held_member" (
	"group_id" uuid NOT NULL,
	"user_id" uuid NOT NULL,
	CONSTRAINT "scim_held_member_group_id_user_id_pk" PRIMARY KEY("group_id","user_id")
);
--> statement-breakpoint
ALTER TABLE "scim_user" ADD COLUMN "held" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "scim_held_member" ADD CONSTRAINT "scim_held_member_group_id_scim_group_id_fk" FOREIGN KEY ("group_id") REFERENCES "public"."scim_group"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scim_held_member" ADD CONSTRAINT "scim_held_member_user_id_scim_user_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."scim_user"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "refusal_count_minute" ON "refusal_count" USING btree ("minute_started_at");--> statement-breakpoint
CREATE INDEX "scim_held_member_user" ON "scim_held_member" USING btree ("user_id");