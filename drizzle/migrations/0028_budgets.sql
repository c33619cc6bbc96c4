CREATE TABLE "held_host" (
	"host_id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"identity_id" uuid NOT NULL,
	"budget" text NOT NULL,
	"since" timestamp (3) with time zone NOT NULL,
	"until" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "volume_budget" (
	"name" text COLLATE "C" PRIMARY KEY NOT NULL,
	"filter" text NOT NULL,
	"bytes_per_hour" bigint NOT NULL,
	"changed_at" timestamp (3) with time zone NOT NULL,
	"changed_by_name" text NOT NULL
);
