-- name: usage
-- By the end of the work, because it is charged then. The row policies filter by tenant.
WITH used AS (
    SELECT ended_at, tool, user_id, 1 AS tasks, 0 AS texts, charged_points AS points
      FROM task
     WHERE tenant_id = current_tenant() AND ended_at >= %(start)s AND ended_at < %(end)s
       AND (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
     UNION ALL
    SELECT ended_at, 'text:' || service, user_id, 0, 1, charged_points
      FROM generation
     WHERE tenant_id = current_tenant() AND ended_at >= %(start)s AND ended_at < %(end)s
       AND (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
), grouped AS (
    SELECT CASE WHEN %(by_day)s THEN (ended_at AT TIME ZONE %(time_zone)s)::date END AS day,
           CASE WHEN %(by_tool)s THEN tool END AS tool,
           CASE WHEN %(by_user)s THEN user_id END AS user_id,
           sum(tasks)::bigint AS tasks, sum(texts)::bigint AS texts, sum(points)::bigint AS points
      FROM used
     GROUP BY 1, 2, 3
     LIMIT %(limit)s
)
SELECT grouped.day, grouped.tool, grouped.user_id, person.email, person.display_name, grouped.tasks, grouped.texts, grouped.points
  FROM grouped LEFT JOIN app_user AS person ON person.user_id = grouped.user_id
 ORDER BY grouped.day, grouped.tool, person.email, grouped.user_id;
