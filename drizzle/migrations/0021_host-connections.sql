CREATE TABLE "fleet_connection" (
	"identity_id" uuid NOT NULL,
	"until_at" timestamp (3) with time zone NOT NULL,
	"core" text COLLATE "C" NOT NULL,
	"subnet" text COLLATE "C" NOT NULL,
	CONSTRAINT "fleet_connection_identity_id_until_at_pk" PRIMARY KEY("identity_id","until_at")
);
--> statement-breakpoint
ALTER TABLE "fleet_status" ADD COLUMN "policy_id" uuid DEFAULT '00000000-0000-0000-0000-000000000000' NOT NULL;--> statement-breakpoint
ALTER TABLE "fleet_status" ADD COLUMN "core" text COLLATE "C" DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "fleet_status" ADD COLUMN "subnet" text COLLATE "C" DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "core" text;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "subnet" text;--> statement-breakpoint
CREATE INDEX "fleet_connection_until" ON "fleet_connection" USING btree ("until_at");