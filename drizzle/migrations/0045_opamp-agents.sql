CREATE TABLE "opamp_agent" (
	"identity_id" uuid PRIMARY KEY NOT NULL,
	"instance_uid" "bytea" NOT NULL,
	"sequence_num" bigint NOT NULL,
	"state" "bytea" NOT NULL,
	"effective_config" text,
	"available_components" text[],
	"offered_config_hash" text,
	"offered_at" timestamp (3) with time zone,
	"applied_config_hash" text,
	"applied_at" timestamp (3) with time zone,
	"failed_assignment_id" uuid,
	"failed_reason" text,
	"failed_at" timestamp (3) with time zone,
	"last_good_config_hash" text,
	"previous_instance_uid" "bytea",
	"previous_instance_at" timestamp (3) with time zone,
	"restart_asked_at" timestamp (3) with time zone,
	"updated_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "collector_config" ADD COLUMN "kind" text DEFAULT 'svc-collector' NOT NULL;--> statement-breakpoint
ALTER TABLE "collector_identity" ADD COLUMN "agent" text DEFAULT 'svc-collector' NOT NULL;--> statement-breakpoint
ALTER TABLE "fleet_status" ADD COLUMN "agent" text COLLATE "C" DEFAULT 'svc-collector' NOT NULL;--> statement-breakpoint
ALTER TABLE "collector_health" ADD COLUMN "agent_name" text;--> statement-breakpoint
ALTER TABLE "opamp_agent" ADD CONSTRAINT "opamp_agent_identity_id_collector_identity_id_fk" FOREIGN KEY ("identity_id") REFERENCES "public"."collector_identity"("id") ON DELETE no action ON UPDATE no action;