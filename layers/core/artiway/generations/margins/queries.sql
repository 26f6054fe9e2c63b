-- name: margins
-- Over all tenants. The primary key begins with the day, so only the days that are asked for are read.
WITH grouped AS (
    SELECT CASE WHEN %(by_day)s THEN day END AS day,
           CASE WHEN %(by_model)s AND provider <> '' THEN provider || '/' || model_id END AS model,
           CASE WHEN %(by_service)s THEN service END AS service,
           CASE WHEN %(by_tenant)s OR %(by_user)s THEN tenant_id END AS tenant_id,
           CASE WHEN %(by_user)s THEN user_id END AS user_id,
           sum(calls)::bigint AS calls, sum(estimated_calls)::bigint AS estimated_calls, sum(input_tokens)::bigint AS input_tokens,
           sum(output_tokens)::bigint AS output_tokens, sum(estimated_tokens)::bigint AS estimated_tokens, sum(cost_points) AS cost_points,
           sum(completed)::bigint AS completed, sum(failed)::bigint AS failed, sum(cancelled)::bigint AS cancelled,
           sum(free_texts)::bigint AS free_texts, sum(charged_points)::bigint AS charged_points
      FROM text_usage
     WHERE day BETWEEN %(first)s AND %(last)s
       AND (%(tenant_id)s::uuid IS NULL OR tenant_id = %(tenant_id)s)
       AND (%(service)s::text IS NULL OR service = %(service)s)
       AND (%(model)s::text IS NULL OR provider || '/' || model_id = %(model)s)
     GROUP BY 1, 2, 3, 4, 5
     LIMIT %(limit)s
)
SELECT grouped.*, tenant.name AS tenant_name, person.email
  FROM grouped
  LEFT JOIN tenant USING (tenant_id)
  LEFT JOIN app_user AS person ON person.tenant_id = grouped.tenant_id AND person.user_id = grouped.user_id
 ORDER BY grouped.day, grouped.cost_points DESC, grouped.charged_points DESC, grouped.model, grouped.service, grouped.tenant_id,
          grouped.user_id;
