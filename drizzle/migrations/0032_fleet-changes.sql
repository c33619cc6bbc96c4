CREATE TABLE "fleet_change" (
	"id" uuid PRIMARY KEY NOT NULL,
	"kind" text NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"from_value" text COLLATE "C",
	"to_value" text COLLATE "C",
	"began_at" timestamp (3) with time zone NOT NULL,
	"ended_at" timestamp (3) with time zone NOT NULL,
	"hosts" integer NOT NULL,
	"comparison" text
);
--> statement-breakpoint
CREATE TABLE "fleet_change_hour" (
	"hour" integer PRIMARY KEY NOT NULL,
	"refused" integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX "fleet_change_began" ON "fleet_change" USING btree ("began_at");--> statement-breakpoint
CREATE INDEX "fleet_change_open" ON "fleet_change" USING btree ("ended_at") WHERE "fleet_change"."comparison" is null;