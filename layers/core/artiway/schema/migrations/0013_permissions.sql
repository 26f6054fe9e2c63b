-- New permissions in the built-in roles: task.manage (tasks of colleagues, events of the whole tenant), job.read and
-- webhook.manage. A role or key of a tenant that has job.write may use webhooks as before: job.write includes both.
CREATE OR REPLACE VIEW built_in_role WITH (security_invoker = true) AS
SELECT role.name, string_to_array(role.permissions, ' ') AS permissions, role.name = 'platform_admin' AS is_platform
  FROM (VALUES
        ('owner'::text, 'task.submit task.read task.cancel task.manage points.read points.transfer order.create order.refund job.read job.write job.run job.ops webhook.manage user.manage'::text),
        ('admin',       'task.submit task.read task.cancel task.manage points.read points.transfer order.create job.read job.write job.run job.ops webhook.manage user.manage'),
        ('operator',    'task.submit task.read task.cancel task.manage points.read job.read job.write job.run job.ops webhook.manage'),
        ('member',      'task.submit task.read task.cancel points.read order.create job.read'),
        ('viewer',      'task.read points.read job.read'),
        ('platform_admin', 'task.submit task.read task.cancel task.manage points.read points.grant points.transfer order.create order.refund job.read job.write job.run job.ops webhook.manage user.manage tenant.manage ops.read ops.write')
       ) AS role (name, permissions);
